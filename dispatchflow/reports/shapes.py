"""Write docs/shapes.md from `planning/shapes.toml`; `doit docs` runs this module."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from dispatchflow.operations import OPERATIONS
from dispatchflow.planning.shapes import Shape, ShapeClass, classes
from dispatchflow.reports.table import markdown

_HEAD = """\
# Shapes by name

Written by `doit docs` from [`planning/shapes.toml`](../dispatchflow/planning/shapes.toml); do not edit.

`shape = ["aligned", "64x80x96"]` in a [spec](specs.md) sweeps a class of shapes and one more shape.
`shape=aligned` on the command line selects the same class; without `operation=` it is a sweep of every operation that
has the class.
If a shape sets words of its own, such as `stride`, the sweep cannot set them too; it can sweep all other words.

"""


def page() -> str:
    return _HEAD + "\n".join("\n".join(_section(known)) for known in classes().values())


def _section(known: ShapeClass) -> Iterator[str]:
    yield f"## {known.name}\n\n{known.reason.strip()}\n\nSource: {known.source}.\n"
    lists: dict[tuple[Shape, ...], list[str]] = {}
    for name, shapes in known.shapes.items():
        lists.setdefault(shapes, []).append(name)
    for shapes, names in lists.items():
        dims = dict.fromkeys("x".join(OPERATIONS[name].dims) for name in names)
        yield f"{', '.join(f'`{name}`' for name in names)}: {' or '.join(dims)}\n"
        columns = ["shape", *(["its own words"] if any(shape.options for shape in shapes) else []), "meaning"]
        yield markdown(columns, [_row(shape) for shape in shapes]) + "\n"


def _row(shape: Shape) -> dict[str, str]:
    own = ", ".join(f"`{word} = {value}`" for word, value in shape.options)
    return {"shape": f"`{'x'.join(map(str, shape.sizes))}`", "its own words": own, "meaning": shape.what}


if __name__ == "__main__":
    sys.stdout.write(page())
