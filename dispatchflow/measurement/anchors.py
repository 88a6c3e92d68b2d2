"""How fast this machine is while a case is measured, and how far its sessions are apart.

All cases of a run move together, by percents: clocks, neighbours, where memory lies. Anchors are kernels that never
change; measured in the same rounds as the cases, they say by how much. Pure; `anchor_trials` measures them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt
from typing import Any

from dispatchflow.measurement.calibration import READ, Kernel
from dispatchflow.timing.protocols import Protocol
from dispatchflow.timing.statistics import Z, median, summary

KINDS = ("f32", "cache" + READ)
"""One that computes and one that reads: their mean follows cases of both kinds, and of vmvx, better than either."""

PROTOCOL = Protocol("anchor", 1, warmup_s=0.02, block_s=0.03, blocks=1, span_s=0.0, budget_s=1.0)

PRIOR_SESSION_SD, PRIOR_CASE_SD = 0.02, 0.01
"""Between sessions, in parts of the time: of what all cases share, and of what each has for itself. Found on a virtual
machine of two cores (docs/measurement.md); they count as much as `PRIOR_SESSIONS` sessions of this machine."""

PRIOR_SESSIONS = 4
_KEPT_SESSIONS = 64


def chosen(kernels: Iterable[Kernel]) -> list[Kernel]:
    """The first of each kind."""
    first: dict[str, Kernel] = {}
    for kernel in kernels:
        first.setdefault(kernel.kind, kernel)
    return [first[kind] for kind in KINDS if kind in first]


@dataclass(frozen=True)
class History:
    """Of the anchors of one machine and number of threads. `objects`: anchor → the compiled module, the same for all
    toolchains; `reference_ns`: what each took in the first session, which factors are relative to;
    `sessions`: run → what each took in it."""

    objects: Mapping[str, str] = field(default_factory=dict)
    reference_ns: Mapping[str, float] = field(default_factory=dict)
    sessions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @staticmethod
    def of(text: str | None) -> History:
        return History(**json.loads(text)) if text else History()

    def json(self) -> str:
        return json.dumps(self.__dict__)

    def begins_as(self, other: History) -> bool:
        """Whether both are of the same modules, and relative to the same times: the same history, once more or less
        far."""
        return (self.objects, self.reference_ns) == (other.objects, other.reference_ns)

    def seen(self, run: str, blocks: Mapping[str, Sequence[float]]) -> History:
        """With what the anchors took in this run, so far."""
        found = {name: median(sorted(ns)) for name, ns in blocks.items() if ns}
        if not found:
            return self
        sessions = {**self.sessions, run: found}
        kept = dict([*sessions.items()][-_KEPT_SESSIONS:])
        return History(self.objects, {**found, **self.reference_ns}, kept)

    @property
    def spread(self) -> tuple[float, float]:
        """Standard deviations between sessions of the logarithms of times: of what cases share, and of what each has
        for itself. The latter as the anchors differ from each other."""
        logs = [self._logs(found) for found in self.sessions.values()]
        shared = [sum(values) / len(values) for values in logs if values]
        own = [(values[0] - values[1]) / sqrt(2) for values in logs if len(values) == len(KINDS)]
        return _pooled(shared, PRIOR_SESSION_SD), _pooled(own, PRIOR_CASE_SD)

    def _logs(self, found: Mapping[str, float]) -> list[float]:
        return [log(ns / self.reference_ns[name]) for name, ns in sorted(found.items()) if name in self.reference_ns]

    def moment(self, blocks: Mapping[str, Sequence[float]]) -> Moment:
        """While these blocks of the anchors were taken; no blocks where they cannot run."""
        session_sd, case_sd = self.spread
        measured = {name: ns for name, ns in sorted(blocks.items()) if ns and name in self.reference_ns}
        medians = {name: median(sorted(ns)) for name, ns in measured.items()}
        logs = self._logs(medians)
        if not logs:
            return Moment(session_sd, case_sd, len(self.sessions))
        chance = sqrt(sum(_median_sd(ns) ** 2 for ns in measured.values())) / len(logs)
        # Of one anchor nobody knows how far it is off: as far as cases are.
        apart = (max(logs) - min(logs)) / 2 if len(logs) > 1 else case_sd
        return Moment(
            session_sd,
            case_sd,
            len(self.sessions),
            exp(sum(logs) / len(logs)),
            sqrt(chance**2 + apart**2),
            tuple(medians.values()),
            tuple(self.reference_ns[name] for name in medians),
        )


def _pooled(values: Sequence[float], prior_sd: float) -> float:
    mean = sum(values) / len(values) if values else 0.0
    freedom = PRIOR_SESSIONS + max(0, len(values) - 1)
    return sqrt((PRIOR_SESSIONS * prior_sd**2 + sum((value - mean) ** 2 for value in values)) / freedom)


def _median_sd(blocks_ns: Sequence[float]) -> float:
    """Of the median's logarithm."""
    half_width = summary(blocks_ns).log_half_width
    if half_width is not None:
        return half_width / Z
    if len(blocks_ns) < 2:
        return PRIOR_SESSION_SD
    logs = [log(ns) for ns in blocks_ns]
    mean = sum(logs) / len(logs)
    return 1.2533 * sqrt(sum((value - mean) ** 2 for value in logs) / (len(logs) - 1) / len(logs))


@dataclass(frozen=True, slots=True)
class Moment:
    """`factor`: how much longer the anchors took than in the machine's first session; its `factor_sd` is of its
    logarithm. Both None where no anchor could be run. The two `sd` are those of `History.spread`, from `sessions`."""

    session_sd: float
    case_sd: float
    sessions: int
    factor: float | None = None
    factor_sd: float | None = None
    anchors_ns: Sequence[float] = ()
    reference_ns: Sequence[float] = ()

    @property
    def between(self) -> float:
        """Half of a 95 % interval, of logarithms: between this session and another one, were there no noise in them."""
        return Z * sqrt(2 * (self.session_sd**2 + self.case_sd**2))

    @property
    def factor_half_width(self) -> float | None:
        return None if self.factor_sd is None else Z * self.factor_sd

    def later(self, within: float) -> float:
        """Half of the 95 % interval of another session's median, relative to this one's; `within`: of this one's. Both
        of logarithms."""
        return sqrt(2 * within**2 + self.between**2)

    def later_anchored(self, within: float) -> float | None:
        """The same of medians that are divided by their sessions' factors."""
        if self.factor_sd is None:
            return None
        return sqrt(2 * (within**2 + (Z * self.factor_sd) ** 2 + (Z * self.case_sd) ** 2))

    def json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}
