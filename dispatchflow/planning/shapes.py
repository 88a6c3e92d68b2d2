"""Shapes to sweep by name: the classes of shapes.toml, by operation."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, slots=True)
class Shape:
    """`options` are the operation's own words that belong to this shape; the others are swept."""

    sizes: tuple[int, ...]
    options: tuple[tuple[str, str | int], ...] = ()
    what: str = ""

    def chosen(self, words: Sequence[str], values: Sequence[str | int]) -> tuple[str | int, ...]:
        """The values of these words, the shape's own instead where it has them."""
        own = dict(self.options)
        return tuple(own.get(word, value) for word, value in zip(words, values, strict=True))


@dataclass(frozen=True, slots=True)
class ShapeClass:
    name: str
    reason: str
    source: str
    shapes: Mapping[str, tuple[Shape, ...]]
    """Of each operation that has it."""


@cache
def classes() -> dict[str, ShapeClass]:
    """All of the table, which is part of this package as its code is; read when a spec first names one."""
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
    """Class → shapes, of one operation."""
    return {name: known.shapes[operation] for name, known in classes().items() if operation in known.shapes}


def _shape(line: str) -> Shape:
    """`1x56x56x64x64x3x3 stride=2 padding=1 what it is`"""
    sizes, *words = line.split()
    options = [word.split("=") for word in words if "=" in word]
    pairs = tuple((word, int(value) if value.isdecimal() else value) for word, value in options)
    return Shape(tuple(map(int, sizes.split("x"))), pairs, " ".join(words[len(options) :]))
