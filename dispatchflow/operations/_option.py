"""Options: the parameters of an operation besides its sizes, types and layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dispatchflow.units import whole


@dataclass(frozen=True, slots=True)
class Option:
    """The values, the meaning and the default of a parameter such as a stride."""

    values: Sequence[str] | range
    meaning: str
    usual: str | int | None = None
    """The default value. If `usual` is None, the default is the first of `values`."""

    @property
    def default(self) -> str | int:
        return self.values[0] if self.usual is None else self.usual

    @property
    def allowed(self) -> str:
        if isinstance(self.values, range):
            return f"{self.values[0]} … {self.values[-1]}"
        return ", ".join(self.values)

    def parse(self, word: object) -> str | int:
        """Convert a word from a spec or from the command line to a value of the option.

        TOML's `true` and `false` mean `yes` and `no`.

        Raises:
            ValueError: the word is not a value of the option; the message lists the values.
        """
        if isinstance(word, bool):
            word = "yes" if word else "no"
        number = isinstance(self.values, range)
        value = int(word) if number and isinstance(word, str) and whole(word.removeprefix("-")) is not None else word
        if not isinstance(value, int if number else str) or value not in self.values:
            raise ValueError(self.allowed)
        assert isinstance(value, str | int)
        return value

    def takes(self, word: object) -> bool:
        try:
            self.parse(word)
        except ValueError:
            return False
        return True
