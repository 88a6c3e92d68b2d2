"""How fast this machine is while a case is measured, and how far its sessions are apart.

All cases of a run move together, by percents: clocks, neighbours, where memory lies. Anchors are kernels that never
change; measured in the same rounds as the cases, they say by how much. Pure; `anchor_trials` measures them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log, sqrt
from typing import Any

from dispatchflow.measurement.calibration import READ, Kernel
from dispatchflow.timing.protocols import Protocol
from dispatchflow.timing.sensitivity import PRIOR, Sensitivity
from dispatchflow.timing.statistics import CONFIDENCE, Z, median, student_quantile, summary

KINDS = ("f32", "cache" + READ)
"""One that computes and one that reads: their mean follows cases of both kinds, and of vmvx, better than either."""

PROTOCOL = Protocol("anchor", 1, warmup_s=0.02, block_s=0.03, blocks=1, span_s=0.0, budget_s=1.0)

PRIOR_SESSION_SD = 0.02
"""Between sessions, in parts of the time: of what the anchors take. Found on a virtual machine of two cores
(docs/measurement.md); it counts as much as `PRIOR_SESSIONS` sessions of this machine."""

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

    def with_session(self, run: str, blocks: Mapping[str, Sequence[float]]) -> History:
        """With what the anchors took in this run, so far."""
        found = {name: median(sorted(ns)) for name, ns in blocks.items() if ns}
        if not found:
            return self
        sessions = {**self.sessions, run: found}
        kept = dict([*sessions.items()][-_KEPT_SESSIONS:])
        return History(self.objects, {**found, **self.reference_ns}, kept)

    @property
    def spread(self) -> tuple[float, float]:
        """Mean and standard deviation between sessions of the logarithm of what the anchors took."""
        logs = [values for found in self.sessions.values() if (values := self._logs(found))]
        return _pooled([sum(values) / len(values) for values in logs], PRIOR_SESSION_SD)

    @property
    def prior(self) -> Sensitivity:
        """Of a case of which nothing is known: it has as much for itself as the anchors differ from each other."""
        logs = [values for found in self.sessions.values() if len(values := self._logs(found)) == len(KINDS)]
        return replace(PRIOR, case_sd=_pooled([(one - other) / sqrt(2) for one, other in logs], PRIOR.case_sd)[1])

    def _logs(self, found: Mapping[str, float]) -> list[float]:
        return [log(ns / self.reference_ns[name]) for name, ns in sorted(found.items()) if name in self.reference_ns]

    def moment(self, blocks: Mapping[str, Sequence[float]], felt: Sensitivity | None = None) -> Moment:
        """While these blocks of the anchors were taken, for a case of this sensitivity, or one of which nothing is
        known; no blocks where they cannot run."""
        felt = felt or self.prior
        measured = {name: ns for name, ns in sorted(blocks.items()) if ns and name in self.reference_ns}
        medians = {name: median(sorted(ns)) for name, ns in measured.items()}
        logs = self._logs(medians)
        usual, session_sd = self.spread
        known = Moment(
            session_sd, felt.case_sd, len(self.sessions),
            sensitivity=felt.mean, sensitivity_sd=felt.sd, freedom=felt.freedom,
        )  # fmt: skip
        if not logs:
            return known
        chance = sqrt(sum(_median_sd(ns) ** 2 for ns in measured.values())) / len(logs)
        # Of one anchor nobody knows how far it is off: as far as cases are.
        apart = (max(logs) - min(logs)) / 2 if len(logs) > 1 else felt.case_sd
        return replace(
            known,
            unusual=sum(logs) / len(logs) - usual,
            factor=exp(sum(logs) / len(logs)),
            factor_sd=sqrt(chance**2 + apart**2),
            anchors_ns=tuple(medians.values()),
            reference_ns=tuple(self.reference_ns[name] for name in medians),
        )


def _pooled(values: Sequence[float], prior_sd: float) -> tuple[float, float]:
    mean = sum(values) / len(values) if values else 0.0
    freedom = PRIOR_SESSIONS + max(0, len(values) - 1)
    return mean, sqrt((PRIOR_SESSIONS * prior_sd**2 + sum((value - mean) ** 2 for value in values)) / freedom)


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
    logarithm. Both None where no anchor could be run. `session_sd`: between sessions, of what the anchors took in
    `sessions`; how far it was `unusual` in this one. `case_sd`: of what the case has for itself. How strongly it feels
    what anchors feel: `sensitivity` and its `sensitivity_sd`, learned like `case_sd`, with so much `freedom`;
    measurements of before have the prior's."""

    session_sd: float
    case_sd: float
    sessions: int
    factor: float | None = None
    factor_sd: float | None = None
    anchors_ns: Sequence[float] = ()
    reference_ns: Sequence[float] = ()
    sensitivity: float = PRIOR.mean
    sensitivity_sd: float = PRIOR.sd
    freedom: float = PRIOR.freedom
    unusual: float = 0.0

    @property
    def between(self) -> float:
        """Half of a 95 % interval, of logarithms: between this session and another one, were there no noise in them."""
        return self.later(0.0)

    @property
    def factor_half_width(self) -> float | None:
        return None if self.factor_sd is None else Z * self.factor_sd

    @property
    def correction(self) -> float | None:
        """What this session made of the case's time: a time divided by it is anchored."""
        return None if self.factor is None else exp(self.sensitivity * log(self.factor))

    def later(self, within: float) -> float:
        """Half of the 95 % interval of another session's median, relative to this one's; `within`: of this one's. Both
        of logarithms. After an unusual session the next one is further away."""
        apart = self.session_sd**2 + max(self.session_sd, abs(self.unusual)) ** 2
        felt = (self.sensitivity**2 + self.sensitivity_sd**2) * apart
        freedom = PRIOR_SESSIONS + max(0, self.sessions - 1)
        return sqrt(2 * within**2 + self._between((felt, freedom), (self.case_sd**2, self.freedom)) ** 2)

    def later_anchored(self, within: float) -> float | None:
        """The same of anchored medians. The sensitivity is uncertain: the further this session's anchors are from the
        first session's, the more it counts, and as much as usual in the other session. None where it is no narrower
        than that of medians as they are: then they say more."""
        if self.factor is None or self.factor_sd is None:
            return None
        apart = self.sensitivity_sd**2 * (log(self.factor) ** 2 + self.session_sd**2)
        # What the anchors are usually off is in the case's own part already.
        own = max(self.case_sd, abs(self.sensitivity) * self.factor_sd) ** 2
        found = sqrt(2 * within**2 + self._between((apart, self.freedom), (own, self.freedom)) ** 2)
        return found if found < self.later(within) else None

    def _between(self, *parts: tuple[float, float]) -> float:
        """Half of a 95 % interval: of these (variance, degrees of freedom) and of the other session's own part, as
        Student's t with as many degrees of freedom as Welch and Satterthwaite give the sum."""
        every = [*parts, (self.case_sd**2, self.freedom)]
        variance = sum(part for part, _ in every)
        freedom = int(variance**2 / sum(part**2 / freedom for part, freedom in every))
        return student_quantile(CONFIDENCE, freedom) * sqrt(variance)

    def json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}
