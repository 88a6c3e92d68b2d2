"""Element types, layouts, tensor types and signatures."""

from __future__ import annotations

from enum import Enum
from math import prod

import msgspec


class ElementType(Enum):
    """An element type. The value of a member is (MLIR spelling, bits, numpy or ml_dtypes name, digits).

    `digits` is the number of binary digits: with the implicit bit of a float, and without the sign of an integer."""

    F64 = ("f64", 64, "float64", 53)
    F32 = ("f32", 32, "float32", 24)
    F16 = ("f16", 16, "float16", 11)
    BF16 = ("bf16", 16, "bfloat16", 8)
    F8E4M3FN = ("f8E4M3FN", 8, "float8_e4m3fn", 4)
    F8E5M2 = ("f8E5M2", 8, "float8_e5m2", 3)
    F8E8M0FNU = ("f8E8M0FNU", 8, "float8_e8m0fnu", 1)  # a power of two, the scale of a block
    F4E2M1FN = ("f4E2M1FN", 4, "float4_e2m1fn", 2)
    I64 = ("i64", 64, "int64", 63)
    I32 = ("i32", 32, "int32", 31)
    I16 = ("i16", 16, "int16", 15)
    I8 = ("i8", 8, "int8", 7)
    UI8 = ("ui8", 8, "uint8", 8)
    I4 = ("i4", 4, "int4", 3)
    I1 = ("i1", 8, "bool", 1)  # one byte for each element in the runtime's buffers

    __hash__ = object.__hash__  # members are singletons; Enum's own hash is slow, and every operation's hash uses it

    def __init__(self, mlir: str, bits: int, numpy_name: str, digits: int) -> None:
        self.mlir, self.bits = mlir, bits
        self.is_unsigned = mlir.startswith("u")
        self.signless = mlir.removeprefix("u")
        """The spelling in an MLIR module, where integer types do not say if they are signed: `i8` for `ui8`."""
        self.numpy_name = numpy_name
        """The type's name for `numpy.dtype`. The package ml_dtypes defines some names (see `inputs.dtype_of`)."""
        self.digits = digits
        """Integers with a magnitude below 2**digits are represented exactly."""
        self.unit: float = 2.0**-digits
        """The unit roundoff, the largest relative error of one rounding."""
        self.is_float = "f" in mlir
        self.zero = "0.0" if self.is_float else "0"
        """Zero as a literal of `arith.constant`."""


ELEMENT_TYPES = {e.mlir: e for e in ElementType}


class Layout(Enum):
    """The layout of a matrix in memory: `t` is row-major, `n` is column-major, as in BLAS."""

    ROW = "t"
    COLUMN = "n"

    __hash__ = object.__hash__


class TensorType(msgspec.Struct, frozen=True):
    shape: tuple[int, ...]
    element: ElementType
    dynamic: tuple[str, ...] = ()
    """The names of the SSA values that have the sizes of the axes, one name for each axis.

    A static axis has an empty string. The tuple is empty if all axes are static."""

    @property
    def spelling(self) -> str:
        """The type as the runtime's tools spell it, such as `4x8xf32`.

        A dynamic axis is spelled as its size at run time, which is in `shape`: `tensor<?x8xf32>` -> `4x8xf32`."""
        return "x".join([*map(str, self.shape), self.element.mlir])

    @property
    def mlir(self) -> str:
        """The MLIR spelling: `tensor<4x8xf32>`, `tensor<?x8xf32>`."""
        dynamic = self.dynamic or ("",) * len(self.shape)
        sizes = ("?" if name else str(size) for size, name in zip(self.shape, dynamic, strict=True))
        return f"tensor<{'x'.join([*sizes, self.element.signless])}>"

    @property
    def passed(self) -> TensorType:
        """The type that this tensor has as an argument or result of a function.

        The runtime has no f4: two f4 elements are passed as one i8. All other types are passed unchanged."""
        if self.element.bits >= 8 or not self.element.is_float:
            return self
        return TensorType((*self.shape[:-1], self.shape[-1] // 2), ElementType.I8)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size in bytes. Elements narrower than a byte are packed."""
        return (self.size * self.element.bits + 7) // 8


class Signature(msgspec.Struct, frozen=True):
    """The element types of an operation: operands, accumulator, result.

    A signature is written `f16,f16->f32`. If the accumulator and the result have different types, it is written
    `f16,f16->f32->f16`."""

    operands: tuple[ElementType, ...]
    accumulator: ElementType
    result: ElementType

    @property
    def elements(self) -> tuple[ElementType, ...]:
        return (*self.operands, self.accumulator, self.result)

    @property
    def spelling(self) -> str:
        tail = [self.accumulator] if self.accumulator is self.result else [self.accumulator, self.result]
        return "->".join([",".join(e.mlir for e in self.operands), *(e.mlir for e in tail)])

    def __str__(self) -> str:
        return self.spelling


def signature(spelling: str) -> Signature:
    """Parse the text of a signature, such as `f16,f16->f32`.

    Raises:
        KeyError: an element type is unknown, or `->` is missing.
    """
    operands, *rest = spelling.replace(" ", "").split("->")
    if len(rest) not in (1, 2):
        raise KeyError(spelling)
    return Signature(
        tuple(ELEMENT_TYPES[word] for word in operands.split(",")), ELEMENT_TYPES[rest[0]], ELEMENT_TYPES[rest[-1]]
    )
