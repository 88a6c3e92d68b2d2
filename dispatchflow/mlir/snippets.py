"""Build pieces of a function's body as MLIR text. Every op and block argument ends in `loc(unknown)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dispatchflow.mlir.types import ElementType, TensorType

_ITERATORS = {"p": '"parallel"', "r": '"reduction"'}


def filled(tensor: TensorType, literal: str, prefix: str = "") -> str:
    """Return ops that define `%{prefix}init`, a tensor filled with `literal`."""
    zero, element, t = f"%{prefix}zero", tensor.element.mlir, tensor.mlir
    return f"""\
    {zero} = arith.constant {literal} : {element} loc(unknown)
{empty(f"{prefix}empty", tensor)}\
    %{prefix}init = linalg.fill ins({zero} : {element}) outs(%{prefix}empty : {t}) -> {t} loc(unknown)
"""


def empty(name: str, tensor: TensorType) -> str:
    sizes = ", ".join(f"%{size}" for size in tensor.dynamic if size)
    return f"    %{name} = tensor.empty({sizes}) : {tensor.mlir} loc(unknown)\n"


def size(name: str, source: str, tensor: TensorType, axis: int) -> str:
    """Return ops that define `%{name}`: the size that `%{source}` has along one axis at run time.

    `tensor` is the type of `%{source}`, and `axis` is the index of the axis."""
    return f"""\
    %axis_{name} = arith.constant {axis} : index loc(unknown)
    %{name} = tensor.dim %{source}, %axis_{name} : {tensor.mlir} loc(unknown)
"""


def scalars(values: Sequence[int], element: ElementType) -> tuple[str, str, str]:
    """Return (names, types, ops) for constant scalars that a named linalg op takes after its tensors.

    Append the names (`, %scalar0, %scalar1`) to the named op's operands, and the types (`, i32, i32`) to the types of
    the operands. The ops define the scalars and must come first."""
    names = [f"%scalar{i}" for i in range(len(values))]
    text = "".join(
        f"    {name} = arith.constant {value} : {element.mlir} loc(unknown)\n"
        for name, value in zip(names, values, strict=True)
    )
    return "".join(f", {name}" for name in names), f", {element.mlir}" * len(names), text


def returned(name: str, tensor: TensorType) -> str:
    return f"    return %{name} : {tensor.mlir} loc(unknown)\n"


def affine(dims: str, *values: str) -> list[str]:
    """Return one affine map for each of `values`. Each letter is the name of a dim.

    For example, `affine("mk", "m", "mk")` returns a map from (m, k) to (m), and a map from (m, k) to (m, k)."""
    return [f"affine_map<({', '.join(dims)}) -> ({', '.join(value)})>" for value in values]


def generic(
    name: str,
    maps: Sequence[str],
    iterators: str,
    inputs: Mapping[str, TensorType],
    output: tuple[str, TensorType],
    arguments: Sequence[str],
    lines: Sequence[str],
    attribute: str = "",
) -> str:
    """Return an op `%{name} = linalg.generic`.

    Args:
        maps: the indexing maps of the inputs, then of the output.
        iterators: one letter for each dim, `p` (parallel) or `r` (reduction).
        output: the name and the type of the `outs` operand.
        arguments: the names of the block's arguments, first for the inputs, then for the output.
        lines: the ops of the block, and as the last item the name of the yielded value.
        attribute: an attribute that requests a lowering, such as `{compilation_info = #compilation}`, or an empty
            string."""
    *work, yielded = lines
    tensors = [*inputs.values(), output[1]]
    block = ", ".join(f"%{a}: {t.element.signless} loc(unknown)" for a, t in zip(arguments, tensors, strict=True))
    operands = f"{', '.join(f'%{i}' for i in inputs)} : {', '.join(t.mlir for t in inputs.values())}"
    ins = f"ins({operands}) " if inputs else ""
    kinds = ", ".join(_ITERATORS[letter] for letter in iterators)
    slot, out = output[0], output[1].mlir
    tuned = "".join(f", {entry}" for entry in [attribute.strip(" {}")] if entry)
    return f"""\
    %{name} = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{kinds}]{tuned}}} \
{ins}outs(%{slot} : {out}) {{
    ^bb0({block}):
{"".join(f"      {line} loc(unknown)" + chr(10) for line in work)}\
      linalg.yield %{yielded} : {output[1].element.signless} loc(unknown)
    }} -> {out} loc(unknown)
"""


def split(tensor: TensorType, axis: int, parts: int) -> TensorType:
    """Return the type that a tensor has after one axis is split into two.

    The first new axis has the size `parts`. The second one has the size of the old axis divided by `parts`."""
    shape = tensor.shape
    return TensorType((*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :]), tensor.element)


def reshaped(name: str, source: str, tensor: TensorType, to: TensorType, axis: int) -> str:
    """Return an op that reshapes `%{source}` of type `tensor` to `%{name}` of type `to`.

    The op splits the axis `axis` in two, or joins it with the next axis."""
    wide, narrow = (to, tensor) if len(to.shape) > len(tensor.shape) else (tensor, to)
    axes = [[i + (i > axis)] for i in range(len(narrow.shape))]
    axes[axis] = [axis, axis + 1]
    output = f" output_shape {list(wide.shape)}" if wide is to else ""
    op = "expand" if wide is to else "collapse"
    return f"    %{name} = tensor.{op}_shape %{source} {axes}{output} : {tensor.mlir} into {to.mlir} loc(unknown)\n"


def widened(name: str, of: str, source: ElementType, to: ElementType) -> tuple[list[str], str]:
    """Return ops that convert the value `%{of}` to the wider type `to`, and the name of the result.

    If the value already has the type `to`, there are no ops, and the name is `of`."""
    if source is to:
        return [], of
    cast = "extf" if to.is_float else "extui" if source.is_unsigned else "extsi"
    return [f"%{name} = arith.{cast} %{of} : {source.signless} to {to.mlir}"], name


def multiplied(factors: Mapping[str, TensorType], to: ElementType) -> list[str]:
    """Return ops that add the product of two inputs to `%so_far`.

    The returned list can be passed to `generic` as `lines`. `factors` is a dict from each input's block argument to
    its tensor type. Both inputs are first converted to the type `to`."""
    wide = [widened(f"wide_{name}", name, factor.element, to) for name, factor in factors.items()]
    (a_lines, left), (b_lines, right) = wide
    return [
        *a_lines,
        *b_lines,
        f"%term = {arith('mul', to)} %{left}, %{right} : {to.mlir}",
        f"%next = {arith('add', to)} %so_far, %term : {to.mlir}",
        "next",
    ]


def narrowed(source: str, wide: TensorType, result: TensorType, prefix: str = "") -> str:
    """Return ops that define `%{prefix}out`: the tensor `%{source}`, rounded to the type `result`."""
    dims = "mnopqrst"[: len(wide.shape)]
    identity = f"affine_map<({', '.join(dims)}) -> ({', '.join(dims)})>"
    to = f"{wide.element.mlir} to {result.element.mlir}"
    lines = [f"%narrow = arith.truncf %wide : {to}", "narrow"]
    inputs, slot = {source: wide}, (f"{prefix}slot", result)
    text = generic(f"{prefix}out", [identity] * 2, "p" * len(dims), inputs, slot, ("wide", "unused"), lines)
    return empty(slot[0], result) + text


def arith(word: str, element: ElementType) -> str:
    """Return the name of an arith op for an element type: `arith.addf` or `arith.addi` for the word `add`."""
    if word == "max":
        return "arith.maximumf" if element.is_float else "arith.maxsi"
    return f"arith.{word}{'f' if element.is_float else 'i'}"


def lowest(element: ElementType) -> str:
    """Return the literal of a type's lowest value: minus infinity, or the smallest integer."""
    if not element.is_float:
        return str(-(2**element.digits))
    fraction = element.digits - 1
    return f"0x{(2 ** (element.bits - fraction) - 1) << fraction:X}"
