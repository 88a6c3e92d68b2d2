"""Scalar functions such as tanh: MLIR ops, expected results, numpy and torch calls, error bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dispatchflow.operations.api import Array, ElementType, Library, snippets

# kind → (lines that compute %z from %x, operations per element); ops without `math.` are ops of `arith`
UNARY: Mapping[str, tuple[Sequence[str], int]] = {
    "relu": (["z = max x least"], 1),
    "exp": (["z = math.exp x"], 1),
    "tanh": (["z = math.tanh x"], 1),
    "sigmoid": (["n = sub zero x", "e = math.exp n", "d = add e one", "z = div one d"], 4),
    "silu": (["n = sub zero x", "e = math.exp n", "d = add e one", "z = div x d"], 4),
    "gelu": (["s = mul x root_half", "e = math.erf s", "d = add e one", "h = mul x half", "z = mul h d"], 5),
}
_CONSTANTS = {"zero": "0.0", "least": "0.0", "one": "1.0", "half": "0.5", "root_half": "0.70710678118654752"}
# bits of a type → binary exponents of the largest arguments, of the smallest arguments, and of a subnormal argument
_EXPONENTS = {16: (15.0, -9.0, -18.0), 32: (127.0, -30.0, -136.0), 64: (1023.0, -60.0, -1040.0)}
# library → kind → expression
_CALLS = {
    "numpy": {
        "relu": "np.maximum({x}, 0)",
        "exp": "np.exp({x})",
        "tanh": "np.tanh({x})",
        "sigmoid": "1 / (1 + np.exp(-{x}))",
        "silu": "{x} / (1 + np.exp(-{x}))",
    },
    "torch": {
        "relu": "torch.relu({x})",
        "exp": "torch.exp({x})",
        "tanh": "torch.tanh({x})",
        "sigmoid": "torch.sigmoid({x})",
        "silu": "F.silu({x})",
        "gelu": "F.gelu({x})",
    },
}


def constants(lines: Sequence[str], element: ElementType) -> str:
    """Return ops that define the constants in `lines`. The line `h = mul x half` uses the constant `half`."""
    words = {word for line in lines for word in line.split()}
    return "".join(
        f"    %{name} = arith.constant {_literal(value, element)} : {element.mlir} loc(unknown)\n"
        for name, value in _CONSTANTS.items()
        if name in words
    )


def spelt(line: str, element: ElementType) -> str:
    """Translate a line such as `z = add x y` into an MLIR op without its location.

    For f32, this line becomes `%z = arith.addf %x, %y : f32`."""
    result, _, op, *operands = line.split()
    full = op if op.startswith("math.") else snippets.arith(op, element)
    return f"%{result} = {full} {', '.join(f'%{operand}' for operand in operands)} : {element.mlir}"


def _literal(value: str, element: ElementType) -> str:
    return value if element.is_float else str(int(float(value)))


def illegal(kind: str, element: ElementType) -> str | None:
    """Return why the function `kind` is not defined for an element type; None if it is defined."""
    if kind == "relu":
        return None
    if not element.is_float:
        return f"{kind} of integers is not defined"
    return None


def function(kind: str) -> Callable[[Array], Array]:
    """Return the numpy function for `kind`, a key of `UNARY` such as `exp`."""
    import numpy as np

    known: Mapping[str, Callable[[Array], Array]] = {
        "relu": lambda x: np.maximum(x, 0),
        "exp": np.exp,
        "tanh": np.tanh,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "silu": lambda x: x / (1 + np.exp(-x)),
        "gelu": lambda x: x * 0.5 * np.vectorize(math.erfc, otypes=[np.float64])(x * -(0.5**0.5)),
    }
    return known[kind]


def library_lacks(library: Library, kind: str) -> str | None:
    """Return why a library cannot compute the function `kind`; None if it can."""
    return None if kind in _CALLS[library.name] else f"{library.name} has no error function for {kind}"


def library_call(library: Library, kind: str, x: str) -> str:
    """Return a Python expression that computes a function with a library: `np.exp(x0)` for `exp` and `x0`."""
    return _CALLS[library.name][kind].format(x=x)


def far(kind: str, element: ElementType, raw: Array, signs: Array) -> Array:
    """Return arguments for the function `kind`; their exponents are spread over a wide range.

    Some arguments are special, such as 0 and infinity. `raw` has random 64-bit integers, and `signs` has the
    arguments' signs (1 or -1), both in the shape of the result."""
    # Some arguments are points at which implementations change their formula or range: 0, subnormal numbers, multiples
    # of ln(2) / 2, infinities. For silu and gelu there is no -infinity, because their formulas give NaN for it.
    #
    # Let x be the smallest number for which exp(x) overflows. For `exp`, most arguments are at most 4·x; every eighth
    # one is larger. For all functions, an argument whose magnitude is within 2 % of x is replaced by 1 or -1.
    import numpy as np

    from dispatchflow.operations._random import below

    top, low, subnormal = _EXPONENTS[element.bits]
    largest = (top + 1) * math.log(2)
    last = (raw & np.uint64(63)).astype(np.uint8)
    part = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
    most = math.log2(4 * largest) if kind == "exp" else top
    exponent = part * (most - low) + low
    if kind == "exp":
        larger = last & 7 == 2
        exponent[larger] = part[larger] * (top - most) + most
    steps = (1 + below(raw << np.uint64(7), int(2 * largest) - 1)) * (math.log(2) / 2)
    size = np.where(last & 7 == 0, steps, 2.0**exponent)
    rare = (last & 31 == 1) & (signs < 0)
    size[rare] = 2.0**subnormal * (last[rare] == 1)
    size[abs(size / largest - 1) < 0.02] = 1.0
    infinite = last & 31 == 3
    size[infinite & (signs > 0) if kind in ("silu", "gelu") else infinite] = np.inf
    return signs * size


def error_of(kind: str, x: Array, y: Array, element: ElementType) -> Array:
    """Return a bound on the absolute error of a kernel that computes the function `kind` of x.

    y is the exact result. The bound is (ULPS + 3) · u · |y|, where u is the type's unit roundoff. `ULPS` covers the
    error of an exponential, and the summand 3 covers the errors of three more operations. The bound for
    gelu is that of `gelu_error`. For the sigmoid or silu of a very low x, a kernel may return 0. The bound is then |y|
    instead."""
    import numpy as np

    from dispatchflow.operations._numeric import ULPS

    if kind == "gelu":
        return gelu_error(x, np.zeros_like(x), element.unit)
    bound: Array = (ULPS + 3) * element.unit * abs(y)
    if kind in ("sigmoid", "silu"):
        # Where exp(-x) may overflow, a kernel may return 0.
        bound = np.where(x < -math.log(2) * (_EXPONENTS[element.bits][0] + 0.9), abs(y), bound)
    return bound


def gelu_error(x: Array, of_x: Array, unit: float) -> Array:
    """Return a bound on the error of gelu(x) for an x whose own error is at most `of_x`.

    `unit` is 2**-digits, where digits is the number of binary digits of the type."""
    # The slope of gelu is less than 1.13. Rounding errors inside gelu are relative to x, and not to the result, because
    # 1 + erf cancels for negative x. For x > 9, erf is 1 in every type, so that gelu is x. For x < -9, a kernel that
    # uses erf returns 0, because erf is -1 there. A kernel that uses erfc returns about the exact value, which is
    # between 0 and -exp(-x² / 2) / 2.
    import numpy as np

    from dispatchflow.operations._numeric import ULPS

    size = unit * (abs(x) + of_x)
    tail = np.exp(-(x**2) / 2) / 2
    bound: Array = 1.13 * of_x + np.select([x + of_x < -9, x - of_x > 9], [tail, 2 * size], (ULPS + 3) * size)
    return bound
