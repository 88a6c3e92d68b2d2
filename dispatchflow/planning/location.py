"""Where the words of a sweep stand, and how they are spelt there: for error messages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

COMMAND_LINE = "command line"


@dataclass(frozen=True, slots=True)
class Location:
    """`sweep`: `specs/matmul.toml:3, sweep[0]`, or the command line, which also gave the words `replaced`."""

    sweep: str
    replaced: Collection[str] = ()

    def at(self, word: str) -> str:
        return f"{word}= on the {COMMAND_LINE}" if self._on_line(word) else f"{self.sweep}.{word}"

    def spelt(self, word: str, value: str | int) -> str:
        """`function = "main"` in a spec, `function=main` on the command line."""
        if self._on_line(word):
            return f"{word}={value}"
        return f'{word} = "{value}"' if isinstance(value, str) else f"{word} = {value}"

    def listed(self, word: str, values: Sequence[str]) -> str:
        """`inputs = ["4xf32", "5"]` in a spec, `'inputs=4xf32;5'` on the command line, in quotes: a shell
        ends a command at `;`."""
        if self._on_line(word):
            return f"'{word}={';'.join(values)}'"
        return f"{word} = [" + ", ".join(f'"{value}"' for value in values) + "]"

    @property
    def folder(self) -> str:
        """That paths are relative to: doit makes the first the current one, under -k and -f too."""
        return "the directory of dodo.py (or of -d)" if self._is_line else "the spec's directory"

    @property
    def paths(self) -> str:
        """How they are written."""
        comma = ", and a comma ends one; in a spec it does not" if self._is_line else ""
        return f"Paths are relative to {self.folder}{comma}."

    def _on_line(self, word: str) -> bool:
        return self._is_line or word in self.replaced

    @property
    def _is_line(self) -> bool:
        return self.sweep == COMMAND_LINE
