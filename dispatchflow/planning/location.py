"""The place where a sweep is written, and how its words (keys) are spelled there, for error messages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dispatchflow.planning.axis import FORMS, LINE_FORMS

COMMAND_LINE = "command line"

_SEMICOLONS = ("inputs", "parameters", "expected")
"""The words with paths whose values are separated by semicolons on the command line."""


@dataclass(frozen=True, slots=True)
class Location:
    """The place where a sweep is written; the methods spell words as they are written there."""

    sweep: str
    """`specs/matmul.toml:3, sweep[0]`, or `COMMAND_LINE`."""
    replaced: Collection[str] = ()
    """The words of a spec's sweep that variables of the command line replace."""

    def at(self, word: str) -> str:
        return f"{word}= on the {COMMAND_LINE}" if self._on_line(word) else f"{self.sweep}.{word}"

    def spelt(self, word: str, value: str | int) -> str:
        """Spell a word: `function = "main"` in a spec, `function=main` on the command line."""
        if self._on_line(word):
            return f"{word}={value}"
        return f'{word} = "{value}"' if isinstance(value, str) else f"{word} = {value}"

    def listed(self, word: str, values: Sequence[str]) -> str:
        """Spell a list: `inputs = ["4xf32", "5"]` in a spec, `'inputs=4xf32;5'` on the command line.

        The quotes are needed because a shell ends a command at `;`."""
        if self._on_line(word):
            return f"'{word}={';'.join(values)}'"
        return f"{word} = [" + ", ".join(f'"{value}"' for value in values) + "]"

    def sizes(self, dim: str, values: Sequence[int]) -> str:
        """Spell several sizes: `n = [512, 1024]` in a spec, `n=512,1024` on the command line."""
        if self._on_line(dim):
            return f"{dim}={','.join(map(str, values))}"
        return f"{dim} = {list(values)}"

    def size_forms(self, dim: str) -> str:
        """Return the forms in which sizes are written at this place."""
        return LINE_FORMS if self._on_line(dim) else FORMS

    @property
    def folder(self) -> str:
        """The description, for messages, of the directory to which paths are relative.

        For a word of the command line, it is the directory of dodo.py, because doit changes into that directory (even
        with its options -k and -f)."""
        return "the directory of dodo.py, or to -d if given" if self._is_line else "the spec's directory"

    def paths(self, word: str) -> str:
        """Return a hint on how the paths of a word are written."""
        if not self._is_line:
            return f"Paths are relative to {self.folder}."
        mark = "semicolon" if word in _SEMICOLONS else "comma"
        return f"Paths are relative to {self.folder}, and a {mark} ends one; in a spec it does not."

    def _on_line(self, word: str) -> bool:
        return self._is_line or word in self.replaced

    @property
    def _is_line(self) -> bool:
        return self.sweep == COMMAND_LINE
