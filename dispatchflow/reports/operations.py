"""Write docs/operations.md from the registry of operations; `doit docs` runs this module."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from dispatchflow.libraries.providers import IREE, LIBRARIES
from dispatchflow.operations import OPERATIONS, OPTIONS, Operation
from dispatchflow.planning.shapes import classes_of
from dispatchflow.planning.sweep_words import AXES
from dispatchflow.reports.table import markdown
from dispatchflow.workload import Kind

_HEAD = """\
# Operations

Written by `doit docs` from [`operations/`](../dispatchflow/operations); do not edit.

An operation has the words in its table, in addition to the words that all operations have: {axes}.
Use them in a [spec](specs.md) or on the command line.
The value of a word may be a list. The first value shown is the default, unless another is named.
An operation's own words appear in names if they are not the default, and are columns of the [rows](results.md).
A combination that an operation does not support is a skip with its reason.
[Verification](verification.md) explains how results are checked.
The row *verified on* has the recipes that make the inputs of a small case. If `or` separates several lists,
the element types and options of the case decide which list applies.

"""


def page() -> str:
    shared = [f"`{word}`" for word in AXES if word not in ("dtype", "layout", *OPTIONS)]
    return _HEAD.format(axes=", ".join(shared)) + "\n".join("\n".join(_section(cls)) for cls in OPERATIONS.values())


def _section(cls: type[Operation]) -> Iterator[str]:
    usual = (cls.make([size] * len(cls.dims)) for size in (4, 32))
    default = next(operation for operation in usual if not operation.illegal("llvm-cpu"))
    formula = (sys.modules[cls.__module__].__doc__ or "").strip()
    about = " ".join((cls.__doc__ or "").split())
    yield f"## {cls.name}\n\n`{formula}`\n\n{about}\n"
    rows = [("sizes", ", ".join(f"`{dim}`" for dim in cls.dims))]
    if named := classes_of(cls.name):
        rows.append(("`shape`", f"`{'x'.join(cls.dims)}`, or [by name](shapes.md): {', '.join(named)}"))
    types = (word if word == s.spelling else f"`{word}` ({s.spelling})" for word, s in cls.signatures.items())
    rows.append(("`dtype`", ", ".join(types)))
    rows.append(("`layout`", ", ".join(f"`{layout}`" for layout in cls.layouts)))
    for word, option in cls.options.items():
        unset = "" if option.usual is None else f" (default {option.usual})"
        rows.append((f"`{word}`", f"{option.allowed}{unset}: {option.meaning}"))
    rows.append(("operands", ", ".join(f"`{_shape(cls, i)}`" for i in range(len(default.operands())))))
    flops = " ".join((cls.flops.__doc__ or "").split())
    rows += [("operations counted", flops)] if flops else []
    rows.append(("verified on", _verified(cls)))
    rows.append(("`provider`", _providers(cls)))
    yield markdown(("word", "values"), [{"word": word, "values": values} for word, values in rows])
    yield f"\nA name: `{default.shape_name}_default@llvm-cpu-1t`\n"


def _shape(cls: type[Operation], index: int) -> str:
    """Return the shape of operand number `index` of an operation, such as `mxk` for operand 0 of `matmul`."""
    # Each dim has a unique size, so that a size in the operand's type identifies a dim. All sizes are multiples of 32,
    # so that blocks of 32 divide them.
    blocks = {101 + 2 * i: dim for i, dim in enumerate(cls.dims)}
    sizes = {32 * size: dim for size, dim in blocks.items()}
    names = {**{size: f"({dim}/32)" for size, dim in blocks.items()}, **sizes}
    shape = cls.make(list(sizes)).operands()[index].type.shape
    return "x".join(names.get(size, str(size)) for size in shape)


def _verified(cls: type[Operation]) -> str:
    recipes = dict.fromkeys(", ".join(operation.recipes) for operation in _variants(cls))
    bits = {operation.bitwise for operation in _variants(cls) if operation.types.result.is_float}
    selects = (
        "; results for random floats are compared bit by bit"
        + (" if the `kind` permits only one result, as `max` does" if False in bits else "")
        if True in bits
        else ""
    )
    return "; or ".join(recipes) + selects


def _providers(cls: type[Operation]) -> str:
    """Return a text that names the providers (IREE and libraries) that can compute an operation.

    If a library cannot compute some variants of the operation, the reasons follow the library's name in parentheses."""
    found = [IREE]
    for library in LIBRARIES.values():
        if library.computes is not Kind.OPERATIONS:
            continue
        reasons = [operation.library_lacks(library) for operation in _variants(cls)]
        if None in reasons:
            lacks = "; ".join(dict.fromkeys(filter(None, reasons)))
            found.append(f"{library.name} ({lacks})" if lacks else library.name)
    return ", ".join(found)


def _variants(cls: type[Operation]) -> Iterator[Operation]:
    """Yield variants of an operation, which differ in element types and options.

    In each variant, at most one option differs from its default. Options with a range of integers as values
    keep their default."""
    for word in cls.signatures:
        for name, option in {"": None, **cls.options}.items():
            for value in () if option is None or isinstance(option.values, range) else option.values:
                yield cls.make([8] * len(cls.dims), word, **{name: value})
        yield cls.make([8] * len(cls.dims), word)


if __name__ == "__main__":
    sys.stdout.write(page())
