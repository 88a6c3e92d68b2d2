"""y[m] = Σ_k A[m,k] · x[k]"""

from __future__ import annotations

from typing import ClassVar

from dispatchflow.operations._contraction import Contraction


class Matvec(Contraction):
    """The product of a matrix and a vector. For a transposed matrix, use the operation `vecmat`."""

    name: ClassVar[str] = "matvec"
    dims: ClassVar[tuple[str, ...]] = ("m", "k")
    lhs, rhs, out = "mk", "k", "m"
    layouts: ClassVar[tuple[str, ...]] = ("tt",)
