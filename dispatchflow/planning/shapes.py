"""Read shapes.toml, which has named classes of shapes, such as `tiny`, for each operation."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, slots=True)
class Shape:
    sizes: tuple[int, ...]
    options: tuple[tuple[str, str | int], ...] = ()
    """(option, value) for each option that the shape fixes. The sweep gives the remaining options."""
    what: str = ""
    """The layer or purpose of the shape."""

    def chosen(self, words: Sequence[str], values: Sequence[str | int]) -> tuple[str | int, ...]:
        """Return a value for each option in `words`: the shape's own value, or else the value in `values`."""
        own = dict(self.options)
        return tuple(own.get(word, value) for word, value in zip(words, values, strict=True))


@dataclass(frozen=True, slots=True)
class ShapeClass:
    """A named class of shapes, such as `tiny`, with a list of shapes for each operation."""

    name: str
    reason: str
    source: str
    shapes: Mapping[str, tuple[Shape, ...]]
    """Operation → shapes. Operations without shapes in this class are missing."""


@cache
def classes() -> dict[str, ShapeClass]:
    """Return name → class for all classes in shapes.toml."""
    return {
        name: ShapeClass(
            name,
            entry["reason"],
            entry["source"],
            {
                operation: tuple(map(_shape, lines.splitlines()))
                for operations, lines in entry["shapes"].items()
                for operation in operations.split()
            },
        )
        for name, entry in tomllib.loads(_TABLE.read_text(encoding="utf-8")).items()
    }


def classes_of(operation: str) -> dict[str, tuple[Shape, ...]]:
    """Return class name → shapes of `operation`, for the classes that have such shapes."""
    return {name: known.shapes[operation] for name, known in classes().items() if operation in known.shapes}


def _shape(line: str) -> Shape:
    """Parse sizes, options and description: `1x56x56x64 stride=2 a model's layer`."""
    sizes, *words = line.split()
    options = [word.split("=") for word in words if "=" in word]
    pairs = tuple((word, int(value) if value.isdecimal() else value) for word, value in options)
    return Shape(tuple(map(int, sizes.split("x"))), pairs, " ".join(words[len(options) :]))
