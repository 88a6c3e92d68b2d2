"""Estimate how strongly a case's time follows the machine's speed.

Anchors are kernels that never change. Their time shows the machine's speed. The model for each case is log(time) =
level + sensitivity · log(anchors' time) + noise, where the level is a constant of the case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

Runs = Sequence[tuple[float, float]]
"""Pairs (log of the anchors' time, log of one case's time), one pair for each run.

Only the differences between runs matter, so the times may have any unit."""

_LEAST_SD = 0.03
"""The smallest standard deviation of the noise in log(case's time) that `Sensitivity.learned` assumes.

The noise of a case alone may be smaller. The limit also allows for the noise of the anchors' time."""

_PRIOR_CASES = 4
_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How strongly a case's time follows the anchors' times: an estimate, given as a normal distribution.

    It also holds the noise of the case's time."""

    mean: float = 0.8
    sd: float = 0.4
    """The standard deviation of the sensitivity."""
    case_sd: float = 0.01
    """The standard deviation of the part of log(case's time) that the anchors' time does not explain.

    The degrees of freedom of this value are in `freedom`."""
    freedom: float = 4.0
    unusual: float = 0.0
    """log(case's time) in the last run, minus the prediction. It is positive if the run was slower.

    The prediction comes from the time of the anchors."""

    @property
    def _weight(self) -> float:
        """The weight of `self.mean` in the weighted average that `learned` computes.

        The average's other term is the slope of the regression line through the runs. The slope has the weight
        sum((x - average of x)**2), where x is log(anchors' time) in a run."""
        return (max(self.case_sd, _LEAST_SD) / self.sd) ** 2

    def learned(self, runs: Runs) -> Sensitivity:
        """Return a case's sensitivity to the machine's speed, estimated from `runs` with `self` as the prior.

        The method is Bayesian linear regression. Sensitivity and noise have a normal-inverse-gamma prior. The
        level, a constant of the case, has a flat prior."""
        dx, dy = _apart([x for x, _ in runs]), _apart([y for _, y in runs])
        freedom = self.freedom + max(0, len(runs) - 1)
        weight = self._weight
        square = sum(x * x for x in dx) + weight
        mean = (sum(x * y for x, y in zip(dx, dy, strict=True)) + weight * self.mean) / square
        left = [y - mean * x for x, y in zip(dx, dy, strict=True)]
        case_sd = sqrt((self.freedom * self.case_sd**2 + sum(y * y for y in left)) / freedom)
        return Sensitivity(mean, max(case_sd, _LEAST_SD) / sqrt(square), case_sd, freedom, left[-1] if left else 0.0)


PRIOR = Sensitivity()
"""The sensitivity that is assumed if earlier runs do not show it (docs/measurement.md)."""


def prior(cases: Iterable[Runs], first: Sensitivity = PRIOR) -> Sensitivity:
    """Return the distribution of the sensitivities of `cases`, to be used as a prior (empirical Bayes).

    A case is left out if the machine's speed was nearly the same in all its runs. `first` is an assumed distribution.
    It has the same weight as four cases."""
    known = [runs for runs in cases if sum(x * x for x in _apart([x for x, _ in runs])) > first._weight]
    found = first
    for _ in range(_ROUNDS if known else 0):
        each = [found.learned(runs) for runs in known]
        total = _PRIOR_CASES + len(each)
        mean = (_PRIOR_CASES * first.mean + sum(case.mean for case in each)) / total
        apart = sum(case.sd**2 + (case.mean - mean) ** 2 for case in each)
        apart += _PRIOR_CASES * (first.sd**2 + (first.mean - mean) ** 2)
        own = _PRIOR_CASES * first.case_sd**2 + sum(case.case_sd**2 for case in each)
        found = Sensitivity(mean, sqrt(apart / total), sqrt(own / total), first.freedom)
    return found


class Felt:
    """The sensitivities of cases, estimated from earlier measurements.

    `measured` yields (key, log(anchors' time), log(case's time)) for each earlier measurement. The key identifies the
    case."""

    def __init__(self, measured: Iterable[tuple[str, float, float]], first: Sensitivity = PRIOR) -> None:
        self._runs: dict[str, list[tuple[float, float]]] = {}
        for key, anchors, time in measured:
            self._runs.setdefault(key, []).append((anchors, time))
        self._prior = prior(self._runs.values(), first)

    def by(self, key: str, now: tuple[float, float] | None = None) -> Sensitivity:
        """Return the sensitivity of a case, estimated from its runs.

        `now` is (log(anchors' time), log(case's time)) in the current run. If `now` is None, only earlier runs count.
        """
        earlier = self._runs.get(key, [])
        return self._prior.learned([*earlier, now]) if now else replace(self._prior.learned(earlier), unusual=0.0)


def _apart(values: Sequence[float]) -> list[float]:
    mean = sum(values) / len(values) if values else 0.0
    return [value - mean for value in values]
