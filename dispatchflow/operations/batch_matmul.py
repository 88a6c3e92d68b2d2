"""C[b,m,n] = Σ_k A[b,m,k] · B[b,k,n]"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dispatchflow.operations._contraction import Contraction, dynamic
from dispatchflow.operations._epilogue import EPILOGUE
from dispatchflow.operations.api import Option


class BatchMatmul(Contraction):
    """A matrix product for each index along `b`."""

    name: ClassVar[str] = "batch_matmul"
    dims: ClassVar[tuple[str, ...]] = ("b", "m", "n", "k")
    lhs, rhs, out = "bmk", "bkn", "bmn"
    layouts: ClassVar[tuple[str, ...]] = ("tt", "tn", "nt", "nn")
    options: ClassVar[Mapping[str, Option]] = {
        **Contraction.options,
        "dynamic": dynamic("b", "m", "k", "bmnk"),
        "epilogue": EPILOGUE,
    }
