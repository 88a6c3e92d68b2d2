"""Format a user's settings for error messages, in the syntax of TOML or of the command line.

For example, two sizes are `n = [512, 1024]` in TOML, or `n=512,1024` on the command line.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dispatchflow.planning.axis import FORMS, LINE_FORMS

COMMAND_LINE = "command line"
LINE_FOLDER = "the directory of dodo.py"
"""Paths on the command line are relative to this directory, unless doit's option `-d` is given."""

_SEMICOLONS = ("inputs", "parameters", "expected")
"""Keys whose values are separated by semicolons on the command line."""


@dataclass(frozen=True, slots=True)
class Location:
    """The place where a sweep is written: a spec or the command line.

    The methods spell keys and values as a user writes them in this place."""

    sweep: str
    """The name of the place, such as `specs/matmul.toml:3, sweep[0]`; or `COMMAND_LINE`."""
    replaced: Collection[str] = ()
    """The keys of a spec's sweep that the command line overrides."""

    def at(self, word: str) -> str:
        return f"{word}= on the {COMMAND_LINE}" if self._on_line(word) else f"{self.sweep}.{word}"

    def spelt(self, word: str, value: str | int) -> str:
        """Return the key `word` and its value as a user writes them in this place.

        For example, this is `function = "main"` in a spec, and `function=main` on the command line."""
        if self._on_line(word):
            return f"{word}={value}"
        return f'{word} = "{value}"' if isinstance(value, str) else f"{word} = {value}"

    def listed(self, word: str, values: Sequence[str]) -> str:
        """Return the key `word` and a list of values as a user writes them in this place.

        For example, this is `inputs = ["4xf32", "5"]` in a spec, and `'inputs=4xf32;5'` on the command line."""
        if self._on_line(word):
            # The quotes keep a shell from ending the command at `;`.
            return f"'{word}={';'.join(values)}'"
        return f"{word} = [" + ", ".join(f'"{value}"' for value in values) + "]"

    def sizes(self, dim: str, values: Sequence[int]) -> str:
        """Return the dimension `dim` and a list of sizes as a user writes them in this place."""
        if self._on_line(dim):
            return f"{dim}={','.join(map(str, values))}"
        return f"{dim} = {list(values)}"

    def size_forms(self, dim: str) -> str:
        return LINE_FORMS if self._on_line(dim) else FORMS

    @property
    def folder(self) -> str:
        """The directory to which paths are relative, as a text for messages."""
        return f"{LINE_FOLDER}, or to -d if given" if self._is_line else "the spec's directory"

    def paths(self, word: str) -> str:
        """Return a hint on how to write paths as the value of the key `word`, such as `file`."""
        if not self._is_line:
            return f"Paths are relative to {self.folder}."
        mark = "semicolon" if word in _SEMICOLONS else "comma"
        return f"Paths are relative to {self.folder}. Here a {mark} separates paths; in a spec it is part of a path."

    def _on_line(self, word: str) -> bool:
        return self._is_line or word in self.replaced

    @property
    def _is_line(self) -> bool:
        return self.sweep == COMMAND_LINE
