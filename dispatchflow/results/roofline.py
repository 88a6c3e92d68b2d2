"""The roofline model: compare a workload's flops and traffic with the machine's ceilings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dispatchflow.cases import amounts
from dispatchflow.timing.statistics import NOISY
from dispatchflow.workload import Workload


@dataclass(frozen=True, slots=True)
class Roofline:
    """The flops and memory traffic of one call, and the highest rates that this machine can reach."""

    amount_cells: tuple[Any, Any]
    """The cells `flops` and `traffic_bytes` of a row."""
    ceilings: tuple[float | None, float | None]
    """The machine's highest rates, in flops per s and bytes per s. A rate is None if it is unknown."""
    credible_ns: float
    """The shortest credible time of a call, in ns. The value is 0 if this time is unknown."""
    noisy: float = NOISY
    """A row is noisy if the half-width of its median's interval is above this fraction of the median."""

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
        """The flops and the bytes of memory traffic of one call. Each of the two is None if it is unknown."""
        flops, traffic_bytes = map(amounts.valid_amount, self.amount_cells)
        return flops, traffic_bytes


def roofline(
    flops: int | None, traffic_bytes: int | None, ceilings: tuple[float | None, float | None], median_ns: float
) -> dict[str, Any]:
    """Return the cells `bound` and `percent_of_peak` of a row. Both are None if a needed value is unknown.

    `bound` says what limits the call according to the roofline model: `compute` or `memory`. `percent_of_peak` is
    the call's rate of flops or bytes in percent of the machine's highest. `ceilings` has the highest flops per s and
    bytes per s."""
    if flops is None or traffic_bytes is None or ceilings[1] is None or (flops and ceilings[0] is None):
        return {"bound": None, "percent_of_peak": None}
    compute_ns = flops / ceilings[0] * 1e9 if ceilings[0] else 0.0
    memory_ns = traffic_bytes / ceilings[1] * 1e9
    bound = "compute" if compute_ns > memory_ns else "memory"
    return {"bound": bound, "percent_of_peak": 100 * max(compute_ns, memory_ns) / median_ns}
