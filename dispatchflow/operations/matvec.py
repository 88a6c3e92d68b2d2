"""y[m] = Σ_k A[m,k] · x[k]"""

from __future__ import annotations

from typing import ClassVar

from dispatchflow.operations._contraction import Contraction


class Matvec(Contraction):
    """Matrix times vector; with a transposed matrix, use `vecmat`."""

    name: ClassVar[str] = "matvec"
    dims: ClassVar[tuple[str, ...]] = ("m", "k")
    lhs, rhs, out = "mk", "k", "m"
    layouts: ClassVar[tuple[str, ...]] = ("tt",)
