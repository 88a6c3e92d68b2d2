"""Compute the speed of this machine from the times of the anchors.

Anchors are kernels that never change."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log, sqrt
from typing import Any

from dispatchflow.measurement.calibration import READ, Kernel
from dispatchflow.timing.protocols import Protocol
from dispatchflow.timing.sensitivity import PRIOR, Sensitivity
from dispatchflow.timing.statistics import CONFIDENCE, Z_ONE_SIDED, Z, median, student_quantile, summary

KINDS = ("f32", "cache" + READ)
"""The kinds of the two anchors: a kernel that computes, and a kernel that reads from a cache.

The mean of the two anchors' times follows the times of cases better than the time of one anchor does."""

PROTOCOL = Protocol("anchor", 1, warmup_s=0.02, block_s=0.03, blocks=1, span_s=0.0, budget_s=1.0)

PRIOR_SESSION_SD = 0.02
"""The assumed standard deviation of the anchors' times between runs, as a fraction of the time.

When the deviation is estimated from measured runs, this assumption weighs as much as `PRIOR_SESSIONS` runs
(docs/measurement.md)."""

PRIOR_SESSIONS = 4
_KEPT_SESSIONS = 64


def chosen(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Return the kernels that serve as anchors: the first of each kind in `KINDS`."""
    first: dict[str, Kernel] = {}
    for kernel in kernels:
        first.setdefault(kernel.kind, kernel)
    return [first[kind] for kind in KINDS if kind in first]


@dataclass(frozen=True)
class History:
    """The recorded times of the anchors."""

    objects: Mapping[str, str] = field(default_factory=dict)
    """A dict from each anchor kernel's name to the digest of its compiled module.

    All toolchains use the same compiled module."""
    reference_ns: Mapping[str, float] = field(default_factory=dict)
    """The time of each anchor kernel in the first run of the history, in ns."""
    sessions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The time of each anchor kernel in each run: `sessions[run][kernel]`, in ns."""

    @staticmethod
    def of(text: str | None) -> History:
        return History(**json.loads(text)) if text else History()

    def json(self) -> str:
        return json.dumps(self.__dict__)

    def begins_as(self, other: History) -> bool:
        """Return whether both histories begin with the same run: with equal modules and equal times.

        The times of different runs are practically never equal in all digits."""
        return (self.objects, self.reference_ns) == (other.objects, other.reference_ns)

    def with_session(self, run: str, blocks: Mapping[str, Sequence[float]]) -> History:
        """Return the history with an entry for `run`: each anchor kernel's median time in ns.

        For example, the entry for the blocks `{"a": [3, 5, 4]}` is `{"a": 4}`."""
        found = {name: median(ns) for name, ns in blocks.items() if ns}
        if not found:
            return self
        sessions = {**self.sessions, run: found}
        kept = dict([*sessions.items()][-_KEPT_SESSIONS:])
        return History(self.objects, {**found, **self.reference_ns}, kept)

    @property
    def spread(self) -> tuple[float, float]:
        """The mean and the standard deviation of log(anchors' time) over the recorded runs.

        The time is relative to the first run. The standard deviation is pooled with the assumed standard deviation
        `PRIOR_SESSION_SD`."""
        logs = [values for found in self.sessions.values() if (values := self._logs(found))]
        return _pooled([sum(values) / len(values) for values in logs], PRIOR_SESSION_SD)

    @property
    def prior(self) -> Sensitivity:
        """The sensitivity that is assumed for a case if no earlier measurements show it.

        A sensitivity says how strongly a case's time follows the anchors' times. The result equals `PRIOR`, except
        for `case_sd`, which is estimated from the recorded times."""
        # `case_sd` is estimated from the differences between the two anchors.
        return replace(PRIOR, case_sd=_pooled([apart / sqrt(2) for apart in self._differences], PRIOR.case_sd)[1])

    @property
    def _differences(self) -> list[float]:
        """The values log(q / q0), one for each run that measured both anchors.

        q is the ratio of the two anchors' times in that run. q0 is this ratio in the first run."""
        logs = [self._logs(found) for found in self.sessions.values()]
        return [found[0] - found[1] for found in logs if len(found) == len(KINDS)]

    def _logs(self, found: Mapping[str, float]) -> list[float]:
        return [log(ns / self.reference_ns[name]) for name, ns in sorted(found.items()) if name in self.reference_ns]

    def factor(self, blocks: Mapping[str, Sequence[float]]) -> float | None:
        """Return how long the anchor kernels took, relative to the first run of the history.

        `blocks` has the times in ns of each kernel's benchmark processes. For each kernel, the median of these times
        is used. The result is the geometric mean over the kernels, or None if no kernel has a time."""
        logs = self._logs({name: median(ns) for name, ns in blocks.items() if ns})
        return exp(sum(logs) / len(logs)) if logs else None

    def moment(self, blocks: Mapping[str, Sequence[float]], felt: Sensitivity | None = None) -> Moment:
        """Return the machine's speed, computed from the times in ns of each anchor kernel.

        `felt` says how strongly a case's time depends on the speed."""
        felt = felt or self.prior
        measured = {name: ns for name, ns in sorted(blocks.items()) if ns and name in self.reference_ns}
        medians = {name: median(ns) for name, ns in measured.items()}
        logs = self._logs(medians)
        usual, session_sd = self.spread
        known = Moment(
            session_sd, felt.case_sd, len(self.sessions),
            sensitivity=felt.mean, sensitivity_sd=felt.sd, freedom=felt.freedom, case_unusual=felt.unusual,
        )  # fmt: skip
        if not logs:
            return known
        mean = sum(logs) / len(logs)
        chance = sqrt(sum(_median_sd(ns) ** 2 for ns in measured.values())) / len(logs)
        # The error of a single anchor is unknown: assume that it deviates like a case.
        apart = felt.case_sd
        if len(logs) == len(KINDS):
            # A difference that all earlier runs have comes from the first run, and cancels when runs are compared.
            earlier = self._differences[:-1]
            apart = (logs[0] - logs[1] - sum(earlier) / max(1, len(earlier))) / 2
        return replace(
            known,
            unusual=mean - usual,
            factor=exp(mean),
            factor_sd=sqrt(chance**2 + apart**2),
            anchors_ns=tuple(medians.values()),
            reference_ns=tuple(self.reference_ns[name] for name in medians),
        )


def _pooled(values: Sequence[float], prior_sd: float) -> tuple[float, float]:
    """Return the mean of `values`, and their standard deviation pooled with `prior_sd`.

    The assumed standard deviation `prior_sd` weighs as much as `PRIOR_SESSIONS` further values."""
    mean = sum(values) / len(values) if values else 0.0
    freedom = PRIOR_SESSIONS + max(0, len(values) - 1)
    return mean, sqrt((PRIOR_SESSIONS * prior_sd**2 + sum((value - mean) ** 2 for value in values)) / freedom)


def _median_sd(blocks_ns: Sequence[float]) -> float:
    """Estimate the standard deviation of log(m), where m is the median of the times `blocks_ns`."""
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
    """The machine's speed while a case was measured, compared with other runs."""

    session_sd: float
    """Standard deviation of log(time of the anchor kernels) between runs."""
    case_sd: float
    """The standard deviation of log(case's time) over different runs.

    Differences that the anchor kernels' times explain are not included."""
    sessions: int
    """The number of runs that `session_sd` is computed from."""
    factor: float | None = None
    """The anchor kernels' time relative to the machine's first run. None if no anchor kernel could run."""
    factor_sd: float | None = None
    """The standard deviation of log(`factor`). None if `factor` is None.

    `factor` is the anchor kernels' time relative to the machine's first run."""
    anchors_ns: Sequence[float] = ()
    reference_ns: Sequence[float] = ()
    sensitivity: float = PRIOR.mean
    """The exponent s in this model: the case's time is proportional to f**s.

    f is `factor`, the anchor kernels' time relative to the machine's first run."""
    sensitivity_sd: float = PRIOR.sd
    freedom: float = PRIOR.freedom
    """The degrees of freedom of two estimated standard deviations: `sensitivity_sd` and `case_sd`."""
    unusual: float = 0.0
    """The deviation of this run's log(time of the anchor kernels) from the mean over all recorded runs."""
    case_unusual: float = 0.0
    """The deviation of log(case's time) in this run from the value that the anchor kernels predict."""

    @property
    def between(self) -> float:
        """The half-width of the 95 % interval of log(time in this run / time in another run).

        The times are those of the measured case. The noise of this run's blocks is not added."""
        return self.later(0.0)

    @property
    def factor_half_width(self) -> float | None:
        """The half-width of the 95 % interval of log(`factor`). None if `factor` is None.

        `factor` is the anchor kernels' time relative to the machine's first run."""
        return None if self.factor_sd is None else Z * self.factor_sd

    @property
    def correction(self) -> float | None:
        """The predicted ratio of the case's time in this run to the time in the machine's first run.

        None if no anchor kernel could run."""
        return None if self.factor is None else exp(self.sensitivity * log(self.factor))

    def later(self, within: float) -> float:
        """Return the half-width of the 95 % interval in which log(another run's median) is expected.

        `within` is the half-width of the 95 % interval for log(this run's median). The middle of both intervals is
        log(this run's median). The result is never smaller than `within`."""
        sessions = max(1, self.sessions)
        apart = self.session_sd**2 * (1 + 1 / sessions)
        shared = self.sensitivity**2 * apart + self.sensitivity_sd**2 * (apart + self.unusual**2)
        away = self.case_unusual + self.sensitivity * self.unusual
        own = self.case_sd**2 * (1 + 1 / self._runs)
        # The earlier runs may allow a narrower interval than that of this run's median, which would be hard to explain.
        return max(within, self._reach(away, within, own, (shared, PRIOR_SESSIONS + sessions - 1)))

    def later_anchored(self, within: float) -> float | None:
        """Return the half-width of the 95 % interval that predicts log(anchored median) in another run.

        An anchored median is corrected for the machine's speed. Returns None if no correction is known. Also returns
        None if the result is not smaller than `later(within)`, the half-width without the correction.

        Args:
            within: the half-width of the 95 % interval for log(median) in this run."""
        # The sensitivity is uncertain, which widens the interval. The effect grows with the distance of the anchors'
        # times from those of the machine's first session. For the other session, this distance is assumed to be
        # `session_sd`.
        if self.factor is None or self.factor_sd is None:
            return None
        shared = self.sensitivity_sd**2 * (log(self.factor) ** 2 + self.session_sd**2)
        # `case_sd` contains the usual error of the anchors. A larger error in this run makes the case's level, which
        # is a mean over its runs, less certain.
        level = max(self.case_sd, abs(self.sensitivity) * self.factor_sd) ** 2 / self._runs
        found = self._reach(self.case_unusual, within, self.case_sd**2 + level, (shared, self.freedom))
        return found if found < self.later(within) else None

    @property
    def _runs(self) -> float:
        """The number of runs from which `case_sd` is estimated, or 1 if there are none."""
        return max(1.0, self.freedom - PRIOR.freedom + 1)

    def _reach(self, away: float, within: float, own: float, shared: tuple[float, float]) -> float:
        """Return the half-width of the 95 % interval for log(median in another run / median in this run).

        The middle of the interval is 0, even if a different median is expected in the other run. The variance is
        the sum of `own`, `shared` and a part of the noise within a run. The degrees of freedom follow the formula of
        Welch and Satterthwaite.

        Args:
            away: log(median in this run), minus the expected value of log(median in another run).
            within: the 95 % half-width for log(median in this run).
            own: the variance of the case's own changes between runs. Its degrees of freedom are `self.freedom`.
            shared: the variance of the changes that all cases of a run share, and its degrees of freedom."""
        parts = [shared, (own, self.freedom)]
        variance = sum(part for part, _ in parts)
        freedom = int(variance**2 / sum(part**2 / freedom for part, freedom in parts))
        # `case_sd` comes from medians of earlier runs, which contain the noise within a run, and from the prior, which
        # does not. Only the prior's share of the noise is added.
        noise = (within / Z) ** 2 * PRIOR.freedom / self.freedom * (1 + 1 / self._runs)
        # If `away` is large, the other median is on one side of the interval's middle. Only one end can then miss it.
        centred = sqrt(student_quantile(CONFIDENCE, freedom) ** 2 * variance + Z**2 * noise)
        one_sided = sqrt(student_quantile(2 * CONFIDENCE - 1, freedom) ** 2 * variance + Z_ONE_SIDED**2 * noise)
        return max(centred, abs(away) + one_sided)

    def json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}
