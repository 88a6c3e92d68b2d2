"""Read the classes of shapes, such as `tiny`, from the file shapes.toml."""

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
    """The values that the shape fixes for options of its operation, as pairs such as `("stride", 2)`.

    The sweep gives the values of all other options."""
    what: str = ""
    """A description of the shape, such as the layer of a model that has this shape."""

    def chosen(self, words: Sequence[str], values: Sequence[str | int]) -> tuple[str | int, ...]:
        """Return a value for each of the options that `words` names.

        `values` has the values that the sweep gives, in the order of `words`. If the shape fixes an option, the shape's
        value is returned instead of the sweep's value."""
        own = dict(self.options)
        return tuple(own.get(word, value) for word, value in zip(words, values, strict=True))


@dataclass(frozen=True, slots=True)
class ShapeClass:
    """A named class of shapes, such as `tiny`."""

    name: str
    reason: str
    source: str
    shapes: Mapping[str, tuple[Shape, ...]]
    """A dict from the name of an operation to its shapes in this class.

    Operations without shapes in this class are missing."""


@cache
def classes() -> dict[str, ShapeClass]:
    """Return the classes of shapes in shapes.toml, by name."""
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
    """Return the shapes of each class for `operation`, as a dict whose keys are the names of the classes."""
    return {name: known.shapes[operation] for name, known in classes().items() if operation in known.shapes}


def _shape(line: str) -> Shape:
    """Parse the text of one shape, such as `1x56x56x64 stride=2 a model's layer`.

    The text has sizes, then options, then a description."""
    sizes, *words = line.split()
    options = [word.split("=") for word in words if "=" in word]
    pairs = tuple((word, int(value) if value.isdecimal() else value) for word, value in options)
    return Shape(tuple(map(int, sizes.split("x"))), pairs, " ".join(words[len(options) :]))
