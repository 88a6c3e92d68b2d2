"""Pieces of a function's body. Every op and block argument ends in `loc(unknown)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dispatchflow.types import ElementType, TensorType

_ITERATORS = {"p": '"parallel"', "r": '"reduction"'}


def filled(tensor: TensorType, literal: str, prefix: str = "") -> str:
    """`%init`: a tensor of one value; with a prefix `%PREFIXinit`."""
    zero, empty = f"%{prefix}zero", f"%{prefix}empty"
    element, t = tensor.element.mlir, tensor.mlir
    return f"""\
    {zero} = arith.constant {literal} : {element} loc(unknown)
    {empty} = tensor.empty() : {t} loc(unknown)
    %{prefix}init = linalg.fill ins({zero} : {element}) outs({empty} : {t}) -> {t} loc(unknown)
"""


def empty(name: str, tensor: TensorType) -> str:
    return f"    %{name} = tensor.empty() : {tensor.mlir} loc(unknown)\n"


def returned(name: str, tensor: TensorType) -> str:
    return f"    return %{name} : {tensor.mlir} loc(unknown)\n"


def affine(dims: str, *values: str) -> list[str]:
    """`affine("mk", "m", "mk")`: maps from these dims to those, a letter each."""
    return [f"affine_map<({', '.join(dims)}) -> ({', '.join(value)})>" for value in values]


def generic(
    name: str,
    maps: Sequence[str],
    iterators: str,
    inputs: Mapping[str, TensorType],
    output: tuple[str, TensorType],
    arguments: Sequence[str],
    lines: Sequence[str],
) -> str:
    """`%name = linalg.generic`. `iterators`: a letter a dim, `p` or `r`; `arguments`: names of the block's, inputs
    first; the last of `lines` is `name` of what is yielded."""
    *work, yielded = lines
    tensors = [*inputs.values(), output[1]]
    block = ", ".join(f"%{a}: {t.element.mlir} loc(unknown)" for a, t in zip(arguments, tensors, strict=True))
    operands = f"{', '.join(f'%{i}' for i in inputs)} : {', '.join(t.mlir for t in inputs.values())}"
    ins = f"ins({operands}) " if inputs else ""
    kinds = ", ".join(_ITERATORS[letter] for letter in iterators)
    slot, out = output[0], output[1].mlir
    return f"""\
    %{name} = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{kinds}]}} \
{ins}outs(%{slot} : {out}) {{
    ^bb0({block}):
{"".join(f"      {line} loc(unknown)" + chr(10) for line in work)}\
      linalg.yield %{yielded} : {output[1].element.mlir} loc(unknown)
    }} -> {out} loc(unknown)
"""


def widened(name: str, of: str, source: ElementType, to: ElementType) -> tuple[list[str], str]:
    """(lines, the name of the value in the wider type): `%name` where it has to be extended, else `of` itself."""
    if source is to:
        return [], of
    cast = "extf" if to.is_float else "extsi"
    return [f"%{name} = arith.{cast} %{of} : {source.mlir} to {to.mlir}"], name


def narrowed(source: str, wide: TensorType, result: TensorType, prefix: str = "") -> str:
    """`%out`: `%source` rounded to the result's type; with a prefix `%PREFIXout`."""
    dims = "mnopqrst"[: len(wide.shape)]
    identity = f"affine_map<({', '.join(dims)}) -> ({', '.join(dims)})>"
    to = f"{wide.element.mlir} to {result.element.mlir}"
    lines = [f"%narrow = arith.truncf %wide : {to}", "narrow"]
    inputs, slot = {source: wide}, (f"{prefix}slot", result)
    text = generic(f"{prefix}out", [identity] * 2, "p" * len(dims), inputs, slot, ("wide", "unused"), lines)
    return empty(slot[0], result) + text


def arith(word: str, element: ElementType) -> str:
    """`arith.addf` or `arith.addi`."""
    if word == "max":
        return "arith.maximumf" if element.is_float else "arith.maxsi"
    return f"arith.{word}{'f' if element.is_float else 'i'}"


def lowest(element: ElementType) -> str:
    """The literal that no value is below: minus infinity, or the smallest integer."""
    if not element.is_float:
        return str(-(2**element.digits))
    fraction = element.digits - 1
    return f"0x{(2 ** (element.bits - fraction) - 1) << fraction:X}"
