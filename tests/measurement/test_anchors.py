"""What anchors say about a session, and about the next one."""

import json
from math import exp, log, sqrt

import numpy as np
import pytest

from dispatchflow.iree.targets import TARGETS
from dispatchflow.measurement.anchors import PRIOR_CASE_SD, PRIOR_SESSION_SD, History, Moment, chosen
from dispatchflow.measurement.calibration import kernels, processor


def blocks(ns, count=9, spread=0.002):
    return [ns * (1 + spread * ((i * 5) % count / count - 0.4)) for i in range(count)]


def session(history, run, compute, read):
    found = {"compute": blocks(compute), "read": blocks(read)}
    return history.seen(run, found), found


def test_first_session_is_the_reference_and_the_prior_says_how_far_the_next_may_be():
    history, found = session(History(), "r0", 1e6, 1e4)
    moment = history.moment(found)
    assert moment.factor == pytest.approx(1.0)
    assert (moment.session_sd, moment.case_sd) == pytest.approx((PRIOR_SESSION_SD, PRIOR_CASE_SD))
    assert moment.between == pytest.approx(1.96 * sqrt(2 * (0.02**2 + 0.01**2)))


def test_factor_is_the_mean_of_the_anchors_and_their_difference_is_its_uncertainty():
    history, _ = session(History(), "r0", 1e6, 1e4)
    history, found = session(history, "r1", 1.1e6, 1.06e4)
    moment = history.moment(found)
    assert moment.factor == pytest.approx(sqrt(1.1 * 1.06), rel=1e-6)
    assert moment.factor_sd == pytest.approx(log(1.1 / 1.06) / 2, rel=0.01)


def test_reference_stays_so_that_anchored_times_of_all_sessions_compare():
    history, _ = session(History(), "r0", 1e6, 1e4)
    first = history.reference_ns
    for number in range(100):
        history, _ = session(history, f"r{number + 1}", 1e6 * 1.001**number, 1e4)
    assert history.reference_ns == first
    assert len(history.sessions) == 64


def test_one_run_is_one_session_however_often_it_is_seen():
    history = History()
    for _ in range(3):
        history, _ = session(history, "r0", 1e6, 1e4)
    assert len(history.sessions) == 1


@pytest.mark.parametrize(("session_sd", "case_sd"), [(0.005, 0.002), (0.02, 0.01), (0.08, 0.03)])
def test_spread_of_a_machine_is_learned_from_its_sessions(session_sd, case_sd):
    rng, history = np.random.default_rng(3), History()
    for number in range(60):
        shared, own = session_sd * rng.normal(), case_sd * rng.normal(size=2)
        # Each anchor has its own part; the mean of the two has half of that variance beside the shared one.
        history, _ = session(history, f"r{number}", 1e6 * exp(shared + own[0]), 1e4 * exp(shared + own[1]))

    def with_prior(sd, prior):
        return sqrt((59 * sd**2 + 4 * prior**2) / 63)

    shared, own = history.spread
    assert shared == pytest.approx(with_prior(sqrt(session_sd**2 + case_sd**2 / 2), PRIOR_SESSION_SD), rel=0.3)
    assert own == pytest.approx(with_prior(case_sd, PRIOR_CASE_SD), rel=0.3)


def test_without_anchors_there_is_no_factor_and_the_spread_is_the_prior():
    moment = History().moment({})
    assert (moment.factor, moment.factor_sd, moment.later_anchored(0.01)) == (None, None, None)
    assert moment.later(0.01) > moment.between > 0.05


def test_one_anchor_alone_is_as_uncertain_as_a_case():
    found = {"compute": blocks(1e6)}
    assert History().seen("r0", found).moment(found).factor_sd >= PRIOR_CASE_SD


def test_anchored_times_vary_less_from_session_to_session():
    history, found = session(History(), "r0", 1e6, 1e4)
    moment = history.moment(found)
    assert moment.later_anchored(0.01) < moment.later(0.01)


def test_history_and_moment_survive_json():
    history, found = session(History({"compute": "d"}), "r0", 1e6, 1e4)
    assert History.of(history.json()) == history
    moment = history.moment(found)
    again = Moment(**json.loads(json.dumps(moment.json())))
    assert again.later_anchored(0.01) == moment.later_anchored(0.01)


@pytest.mark.parametrize("target", ["llvm-cpu", "vulkan-ampere"])
def test_anchors_are_one_kernel_that_computes_and_one_that_reads(target):
    if target not in TARGETS:
        target = next(name for name, known in TARGETS.items() if not known.has_threads)
    found = chosen(kernels(processor(TARGETS[target], "avx2 avx512f", 2**25), 2**34))
    assert [kernel.kind for kernel in found] == ["f32", "cache_read"]
    assert not any(kernel.spare for kernel in found)
