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
    """One shape of an operation."""

    sizes: tuple[int, ...]
    options: tuple[tuple[str, str | int], ...] = ()
    """(option, value) for each option that this shape fixes; the other options are swept."""
    what: str = ""
    """The layer or purpose of the shape."""

    def chosen(self, words: Sequence[str], values: Sequence[str | int]) -> tuple[str | int, ...]:
        """Return the value of each option in `words`: the shape's own, or the one that `values` has for it."""
        own = dict(self.options)
        return tuple(own.get(word, value) for word, value in zip(words, values, strict=True))


@dataclass(frozen=True, slots=True)
class ShapeClass:
    """A class of shapes, such as `tiny`: a list of shapes for each operation that has this class."""

    name: str
    reason: str
    source: str
    shapes: Mapping[str, tuple[Shape, ...]]
    """Operation → its shapes in this class; only operations that have the class."""


@cache
def classes() -> dict[str, ShapeClass]:
    """Return all classes of shapes.toml, which is read when a spec first names a class."""
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
    """Return class → the operation's shapes in it, for each class that has shapes for this operation."""
    return {name: known.shapes[operation] for name, known in classes().items() if operation in known.shapes}


def _shape(line: str) -> Shape:
    """Parse a line of shapes.toml: sizes, options, description (`1x56x56x64 stride=2 a model's layer`)."""
    sizes, *words = line.split()
    options = [word.split("=") for word in words if "=" in word]
    pairs = tuple((word, int(value) if value.isdecimal() else value) for word, value in options)
    return Shape(tuple(map(int, sizes.split("x"))), pairs, " ".join(words[len(options) :]))
