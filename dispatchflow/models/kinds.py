"""Classify MLIR operations by name.

Some operations compute, and some move or reshape tensors. All other operations are constants, or belong to the
structure of a program, such as functions, calls and loops."""

from __future__ import annotations

import re

from dispatchflow.models.tagged import Computation, Node

_CONTROL = re.compile(
    r"scf\.|affine\.(for|if)|stablehlo\.(while|if|case)$|tosa\.(cond_if|while_loop)$|torch\.prim\.(Loop|If)"
)
_FRAME = re.compile(
    r"(builtin\.module|.*\.(func|initializer|global|return|yield|condition|call)|.*\.global[._](load|store)|.*\.global_(load|store)(_const|_indirect)?"
    r"|torch_c\..*|torch\.prim\..*|cf\..*|util\.(optimization_barrier|assume.*))$"
)
_CONSTANT = re.compile(r".*(constant|const|const_shape|literal|Constant|ConstantOfShape|tensor\.empty|iota|splat)$")
_RESHAPE = re.compile(
    r".*(reshape|expand_shape|collapse_shape|flatten|[._](un)?squeeze|\.view|_view|\.dim|tensor\.cast|tensor\.splat"
    r"|linalg\.fill|identity|onnx\.shape|tensor\.(extract|from_elements))$",
    re.IGNORECASE,
)
_MOVE = re.compile(
    r".*(transpose|permute|copy|clone|slice|concat|concatenate|\bcat|pad|broadcast.*|expand|tile|split|narrow|select"
    r"|stack|reverse|flip|roll|pack|set_encoding|\.bitcast|depthtospace|spacetodepth)$",
    re.IGNORECASE,
)
_ARITHMETIC = re.compile(
    r"(arith|math|complex)\.(?!constant|ext|trunc|index_cast|.*to[sfu]|cmp|select|bitcast|convert)"
)
_NO_WORK = re.compile(r"(linalg|iree_linalg_ext)\.(fill|copy|transpose|broadcast|pack|unpack|gather|scatter|yield)$")
_AROUND = re.compile(
    r"(iree_tensor_ext\.dispatch\..*|flow\.return|flow\.dispatch\..*|util\..*|scf\.yield|affine\.apply"
    r"|.*\.(constant|yield)|tensor\.(empty|dim)|linalg\.fill)$"
)


def is_control(kind: str) -> bool:
    """Return whether an operation is a loop or a branch."""
    return _CONTROL.match(kind) is not None


def is_frame(kind: str) -> bool:
    """Return whether an operation computes nothing, and only gives a program its structure.

    Examples are a module, a function, a call, a return, a loop, and the load of a global."""
    return _FRAME.match(kind) is not None or is_control(kind)


def is_constant(kind: str) -> bool:
    return _CONSTANT.match(kind) is not None


def reshapes(kind: str) -> bool:
    """Return whether an operation only changes a shape or fills a tensor; it then needs no dispatch."""
    return _RESHAPE.match(kind) is not None


def moves(kind: str) -> bool:
    """Return whether an operation only moves or reshapes tensors and computes no elements."""
    return reshapes(kind) or (_MOVE.match(kind) is not None and kind != "arith.select")


def computes(node: Node) -> bool:
    """Return whether an operation computes or moves elements of tensors. Reshapes and fills do not count."""
    kind = node.kind
    return node.tensor and not (is_frame(kind) or is_constant(kind) or reshapes(kind))


def is_around(operation: Computation) -> bool:
    """Return whether an operation in a dispatch only serves other operations, as a load or fill does."""
    return _AROUND.match(operation.kind) is not None or not (operation.tensor or operation.scalars)


def arithmetic(operation: Computation) -> int | None:
    """Return the number of arithmetic operations in each iteration of a linalg operation.

    The result is None if this number is unknown."""
    if operation.scalars:
        return sum(_ARITHMETIC.match(scalar.kind) is not None for scalar in operation.scalars)
    if _NO_WORK.match(operation.kind) or operation.maps or moves(operation.kind):
        return 0
    return None


def is_arithmetic(operation: Computation) -> bool:
    """Return whether an operation in a dispatch computes elements, and does not only move them."""
    if operation.scalars:
        return any(not scalar.kind.startswith(("linalg.index", "arith.constant")) for scalar in operation.scalars)
    return arithmetic(operation) is None
