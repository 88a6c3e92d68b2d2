"""y[n] = Σ_k x[k] · B[k,n]"""

from __future__ import annotations

from typing import ClassVar

from dispatchflow.operations._contraction import Contraction


class Vecmat(Contraction):
    """The product of a vector and a matrix."""

    name: ClassVar[str] = "vecmat"
    dims: ClassVar[tuple[str, ...]] = ("n", "k")
    lhs, rhs, out = "k", "kn", "n"
    layouts: ClassVar[tuple[str, ...]] = ("tt",)
