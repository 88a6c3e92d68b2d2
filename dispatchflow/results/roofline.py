"""What a machine allows a program: its amounts beside the ceilings, and which of the two a call is near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dispatchflow.cases import amounts
from dispatchflow.timing.statistics import NOISY
from dispatchflow.workload import Workload


@dataclass(frozen=True, slots=True)
class Roofline:
    """What one call of a program does, and how fast that can be here."""

    amount_cells: tuple[Any, Any]
    """The cells of `flops` and `traffic_bytes`."""
    ceilings: tuple[float | None, float | None]
    """Flops and bytes per s."""
    credible_ns: float
    """The shortest call that the ceilings allow, each times the margin; 0 when unknown."""
    noisy: float = NOISY
    """Half-widths above this are."""

    @classmethod
    def of(
        cls, program: Workload, ceilings: tuple[float | None, float | None], margin: float, noisy: float = NOISY
    ) -> Roofline:
        cells = amounts.value_or_error(program, "flops"), amounts.value_or_error(program, "traffic_bytes")
        work = zip(map(amounts.valid_amount, cells), ceilings, strict=True)
        least = (w / (c * margin) * 1e9 for w, c in work if w is not None and c is not None)
        return cls(cells, ceilings, max(least, default=0.0), noisy)

    @property
    def amounts(self) -> tuple[int | None, int | None]:
        """(flops, bytes) of one call; None as in `amounts.traffic_bytes`."""
        flops, traffic_bytes = map(amounts.valid_amount, self.amount_cells)
        return flops, traffic_bytes


def roofline(
    flops: int | None, traffic_bytes: int | None, ceilings: tuple[float | None, float | None], median_ns: float
) -> dict[str, Any]:
    """`bound`: what keeps a call from being faster at last, `compute` or `memory`; and the part of that peak that it
    reached, in percent. None where a ceiling that counts is not known."""
    if flops is None or traffic_bytes is None or ceilings[1] is None or (flops and ceilings[0] is None):
        return {"bound": None, "percent_of_peak": None}
    compute_ns = flops / ceilings[0] * 1e9 if ceilings[0] else 0.0
    memory_ns = traffic_bytes / ceilings[1] * 1e9
    bound = "compute" if compute_ns > memory_ns else "memory"
    return {"bound": bound, "percent_of_peak": 100 * max(compute_ns, memory_ns) / median_ns}
