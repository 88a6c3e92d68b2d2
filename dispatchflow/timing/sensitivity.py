"""How strongly a case feels what the anchors feel, learned from its earlier runs.

A case that computes takes 30 % longer where the anchors do, one that streams may take 90 % longer, another one 10 %. So
log(time) = level + sensitivity · log(anchors) + what is the case's own, and each case has its sensitivity. Of few runs
it is uncertain; then it is nearly the prior, which says what the machine's cases have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

Runs = Sequence[tuple[float, float]]
"""Of each run the logarithms of what the anchors took and of what the case took, relative to whatever is fixed."""

_LEAST_SD = 0.03
"""With which a run tells the sensitivity, however well quiet runs agree: what slows one run a little is not what slows
another one much, and anchors have noise too."""

_PRIOR_CASES = 4
_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """`mean` ± `sd`, and the standard deviation `case_sd` of what is left between runs, of `freedom` degrees."""

    mean: float = 0.8
    sd: float = 0.4
    case_sd: float = 0.01
    freedom: float = 4.0

    def learned(self, runs: Runs) -> Sensitivity:
        """With these runs, this being the prior: the regression of conjugate priors (normal, inverse gamma) whose
        level is not known at all."""
        dx, dy = _apart([x for x, _ in runs]), _apart([y for _, y in runs])
        freedom = self.freedom + max(0, len(runs) - 1)
        weight = (_LEAST_SD / self.sd) ** 2
        square = sum(x * x for x in dx) + weight
        mean = (sum(x * y for x, y in zip(dx, dy, strict=True)) + weight * self.mean) / square
        left = sum((y - mean * x) ** 2 for x, y in zip(dx, dy, strict=True))
        case_sd = sqrt((self.freedom * self.case_sd**2 + left) / freedom)
        return Sensitivity(mean, max(case_sd, _LEAST_SD) / sqrt(square), case_sd, freedom)


PRIOR = Sensitivity()
"""Of a machine that no case was measured on twice. Found on two virtual machines (docs/measurement.md)."""


def prior(cases: Iterable[Runs], first: Sensitivity = PRIOR) -> Sensitivity:
    """What these cases have in common, and how far they are apart (empirical Bayes). It counts the `first` prior as
    some more of them; and as much as it for one case, however many they are."""
    told = (_LEAST_SD / first.sd) ** 2  # from where on runs weigh more than the prior
    known, found = [runs for runs in cases if sum(x * x for x in _apart([x for x, _ in runs])) > told], first
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
    """The sensitivities of all cases, each by its key, from (key, anchors, time) of their runs as `Runs` has them."""

    def __init__(self, measured: Iterable[tuple[str, float, float]], first: Sensitivity = PRIOR) -> None:
        self._runs: dict[str, list[tuple[float, float]]] = {}
        for key, anchors, time in measured:
            self._runs.setdefault(key, []).append((anchors, time))
        self._prior = prior(self._runs.values(), first)

    def by(self, key: str) -> Sensitivity:
        return self._prior.learned(self._runs.get(key, ()))


def _apart(values: Sequence[float]) -> list[float]:
    mean = sum(values) / len(values) if values else 0.0
    return [value - mean for value in values]
