"""Earlier runs show a case's sensitivity: how strongly its time follows the machine's speed."""

import csv
from collections import defaultdict
from math import log, sqrt
from pathlib import Path
from random import Random
from statistics import mean, pstdev

import pytest

from dispatchflow.timing.sensitivity import PRIOR, Felt, Sensitivity, prior

RUNS = Path(__file__).parent.parent / "data" / "anchor_runs.csv"
"""Ten runs of seven unchanged cases on a two-core virtual machine.

In runs 5 to 8, other guests on the same host made the machine slower."""


def runs(sensitivity, count=20, apart=0.1, own_sd=0.01, seed=1):
    lot = Random(seed)
    anchors = [lot.gauss(0, apart) for _ in range(count)]
    return [(x, 5 + sensitivity * x + lot.gauss(0, own_sd)) for x in anchors]


@pytest.mark.parametrize("sensitivity", [0.0, 0.8, 1.0, 3.0])
def test_many_runs_determine_the_sensitivity_and_the_case_s_own_noise(sensitivity):
    found = PRIOR.learned(runs(sensitivity))
    assert found.mean == pytest.approx(sensitivity, abs=2 * found.sd)
    assert found.sd < 0.1
    assert found.case_sd == pytest.approx(0.01, rel=0.5)


@pytest.mark.parametrize("few", [[], [(0.1, 5.0)]])
def test_no_run_or_one_leaves_the_prior(few):
    found = PRIOR.learned(few)
    assert (found.mean, found.sd, found.case_sd) == pytest.approx((PRIOR.mean, PRIOR.sd, PRIOR.case_sd))


def test_quiet_runs_leave_the_prior_since_their_anchors_did_not_move():
    found = PRIOR.learned(runs(3.0, count=4, apart=0.002, own_sd=0.02))
    assert (found.mean, found.sd) == pytest.approx((PRIOR.mean, PRIOR.sd), rel=0.05)


def test_level_of_a_case_does_not_matter():
    found = runs(2.0)
    assert PRIOR.learned([(x + 1, y - 7) for x, y in found]).mean == pytest.approx(PRIOR.learned(found).mean)


def test_prior_is_what_the_machine_s_cases_have_in_common():
    alike = prior(runs(2.0, seed=seed) for seed in range(30))
    assert alike.mean == pytest.approx(1.87, abs=0.1)  # the first estimate, 0.8, counts as four cases
    assert prior([]) == prior([runs(3.0, apart=0.002)]) == PRIOR
    mixed = prior(runs(3 * seed / 29, seed=seed) for seed in range(30))
    assert mixed.mean == pytest.approx(1.5, abs=0.2)
    assert mixed.sd > 0.7 > alike.sd


def test_case_that_was_never_measured_has_the_prior_of_the_others():
    known = [(f"case {seed}", x, y) for seed in range(9) for x, y in runs(2.0, seed=seed)]
    felt = Felt(known)
    assert felt.by("new") == prior(runs(2.0, seed=seed) for seed in range(9))
    assert felt.by("case 1").mean == pytest.approx(2.0, abs=0.1)


def test_present_run_is_learned_from_and_compared_with_the_case_s_level():
    earlier = [("a", x, y) for x, y in runs(1.0, count=8, apart=0.01)]
    known = Felt(earlier)
    assert known.by("a").unusual == known.by("new", (0.3, 7.0)).unusual == 0.0
    far = known.by("a", (0.0, 5.5))
    assert far.unusual == pytest.approx(0.5 * 8 / 9, abs=0.02)  # the level is the mean of nine runs
    slow = known.by("a", (0.2, 5.5))
    assert slow.mean > 2.2 > known.by("a").mean  # the first slow run says most about the sensitivity
    assert slow.unusual < 0.1


def left(apart: list[float], y: list[float], sensitivity: list[float]) -> float:
    """Predict each of `y[1:]` from earlier runs. Return the standard deviation of the errors.

    For run i, `y[i]` is log(case's time), and `apart[i]` is log(anchors' time)."""
    remains = []
    for i in range(1, len(y)):
        remains.append(y[i] - mean(y[:i]) - sensitivity[i] * (apart[i] - mean(apart[:i])))
    return pstdev(remains)


def test_ten_real_runs_vary_less_than_with_division_and_without_correction():
    times, anchors = defaultdict(list), {}
    for row in csv.DictReader(RUNS.open()):
        anchors[row["run"]] = log(float(row["anchor_1_ns"]) * float(row["anchor_2_ns"])) / 2
        times[row["case"]].append(log(float(row["median_ns"])))
    x = list(anchors.values())
    found = {}
    for case, y in times.items():
        before = [
            [(other, *run) for other, ys in times.items() for run in zip(x[:i], ys[:i], strict=True)] for i in range(10)
        ]
        learned = [Felt(earlier).by(case).mean for earlier in before]
        found[case] = [left(x, y, s) for s in (learned, [0.0] * 10, [1.0] * 10)]
    assert len(found) == 7
    assert all(learned < 1.05 * none for learned, none, _ in found.values()), found
    assert sum(learned < 0.6 * divided for learned, _, divided in found.values()) >= 5, found
    rms = [sqrt(mean(of[which] ** 2 for of in found.values())) for which in range(3)]
    assert rms[0] < 0.8 * rms[1], rms


def test_uncertainty_matches_the_error_of_learned_sensitivities():
    off = []
    for seed in range(200):
        sensitivity = Random(seed).gauss(PRIOR.mean, PRIOR.sd)
        found = PRIOR.learned(runs(sensitivity, count=5, apart=0.05, own_sd=0.03, seed=seed))
        off.append((found.mean - sensitivity) / found.sd)
    assert 0.8 < pstdev(off) < 1.2


@pytest.mark.parametrize("case_sd", [0.001, 0.01, 0.1])
def test_without_runs_the_prior_stands_however_noisy_cases_are(case_sd):
    known = Sensitivity(0.8, 0.4, case_sd)
    assert (known.learned([]).mean, known.learned([]).sd) == pytest.approx((0.8, 0.4))
