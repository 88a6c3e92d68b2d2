"""C[m,n] = Σ_k A[m,k] · B[k,n]"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dispatchflow.operations._contraction import Contraction, dynamic
from dispatchflow.operations._epilogue import EPILOGUE
from dispatchflow.operations.api import Option, Signature, signature


class Matmul(Contraction):
    """The product of two matrices. Column-major operands are stored as `tensor<KxM>` and `tensor<NxK>`."""

    name: ClassVar[str] = "matmul"
    dims: ClassVar[tuple[str, ...]] = ("m", "n", "k")
    lhs, rhs, out = "mk", "kn", "mn"
    layouts: ClassVar[tuple[str, ...]] = ("tt", "tn", "nt", "nn")
    options: ClassVar[Mapping[str, Option]] = {
        **Contraction.options,
        "dynamic": dynamic("m", "k", "mnk"),
        "epilogue": EPILOGUE,
    }
    signatures: ClassVar[Mapping[str, Signature]] = {
        **Contraction.signatures,
        "i16": signature("i16,i16->i32"),
        "i32": signature("i32,i32->i32"),
        "i64": signature("i64,i64->i64"),
        "ui8_i8": signature("ui8,i8->i32"),
        "i4": signature("i4,i4->i32"),
        "i8_i4": signature("i8,i4->i32"),
        "f8E4M3FN": signature("f8E4M3FN,f8E4M3FN->f32"),
        "f8E5M2": signature("f8E5M2,f8E5M2->f32"),
    }
