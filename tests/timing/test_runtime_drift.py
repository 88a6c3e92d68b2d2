"""Measurements with another runtime are reused until the two runtimes are found to differ in speed.

The runtimes are compared by controls, which are cases that run with both."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import TOOLCHAIN
from timing.test_comparison import NOISES, bursts, drifting

from dispatchflow.cli.progress import Progress
from dispatchflow.keys import Digest, Key
from dispatchflow.measurement.controls import Controls, _Sides, choose, questions
from dispatchflow.store.entries import Record
from dispatchflow.timing import runtime_drift
from dispatchflow.timing.comparison import Comparison, compare
from dispatchflow.timing.runtime_drift import Control, Judgement

OTHER = Digest("digest-of-another-runtime")
THIRD = Digest("digest-of-a-third-runtime")


def control(ratio=1.0, case="a", failure=None, together=True):
    old, new = [100.0] * 14, [100.0 * ratio] * 14
    return Control(case, together, compare(old, new, runtime_drift.FLOOR), failure, tuple(old), tuple(new))


def judgement(*controls):
    return Judgement("3.12.0", "3.13.0", "local-sync", "run", 1.0, controls or (control(),) * 3)


HELD, MOVED = judgement(), judgement(control(), control(1.5, "b"), control())


@pytest.fixture
def measured(case_of, records, resolver_of):
    """Return a function that records a case as compiled and verified, and returns the case.

    The function's positional arguments are runtime digests. The function records a measurement with each runtime."""

    def make(*runtimes_, m=4, ns=100.0, status="measured", **words):
        case, resolver = case_of(threads=1, m=m, **words), resolver_of()
        facts = {"code_digest": f"code of {case.name}"}
        records.add(Record(resolver.chain(case)["compile"].key, "compile", True, facts=facts))
        names = [f"{recipe}_{i}" for recipe in ("exact", "wide", "random") for i in (0, 1)]
        inputs, expected = (
            resolver.supplies.inputs_action(case.operation),
            resolver.supplies.expected_action(case.operation),
        )
        records.add(Record(inputs.key, "inputs", True, outputs=dict.fromkeys(names, "d")))
        records.add(Record(expected.key, "expected", True, outputs={"exact": "d", "wide": "d"}))
        records.add(Record(resolver.chain(case)["verify"].key, "verify", True))
        for number, runtime in enumerate(runtimes_):
            taken = records.begin_measurement(resolver.chain(case)["profile"].key, {}, {}, f"run-{number}")
            records.add_block(taken, 0, ns, None, 0.1)
            records.end_measurement(taken, status, None, {"runtime": "3.12.0", "runtime_digest": runtime})
        return case

    return make


@pytest.fixture
def judge(records, resolver_of, case_of):
    """Return a function that records a judgement, such as `MOVED`, about the speeds of two runtimes.

    The judgement is recorded for the single-threaded device. The cases of the fixture `measured` run on this device."""

    def make(found, one=OTHER, other=TOOLCHAIN.runtime_digest, **words):
        identity = resolver_of().chain(case_of(threads=1, **words)).device.identity
        records.remember(runtime_drift.name(one, other, identity), found.json())

    return make


def test_measurement_of_another_runtime_counts_until_the_runtime_moved(measured, judge, resolver_of):
    case = measured(OTHER)

    resolver = resolver_of()
    step = resolver.chain(case)["profile"]
    assert (step.state, step.why) == ("made", "the store has it, from another runtime: no control was measured yet")
    assert list(resolver.unjudged) == [case]

    judge(HELD)
    resolver = resolver_of()
    assert resolver.chain(case)["profile"].state == "made"
    assert resolver.unjudged == {}

    judge(MOVED)
    resolver = resolver_of()
    step = resolver.chain(case)["profile"]
    assert (step.state, step.measurement, step.why) == ("missing", None, MOVED.text)
    assert resolver.unjudged == {}


def test_judgement_counts_both_ways_and_on_its_device_only(measured, judge, resolver_of):
    judge(MOVED, TOOLCHAIN.runtime_digest, OTHER)
    assert resolver_of().chain(measured(OTHER))["profile"].state == "missing"
    assert resolver_of().chain(measured(TOOLCHAIN.runtime_digest))["profile"].state == "made"
    back = resolver_of(toolchain=replace(TOOLCHAIN, runtime_digest=OTHER))
    assert back.chain(measured(TOOLCHAIN.runtime_digest, m=5))["profile"].state == "missing"
    identity = back.chain(measured(m=5)).device.identity
    assert runtime_drift.name("a", "b", identity) != runtime_drift.name("a", "b", identity | {"uri": "local-task"})


def test_after_the_runtime_moved_the_newest_valid_measurement_is_shown(measured, judge, resolver_of):
    own = TOOLCHAIN.runtime_digest
    judge(MOVED)
    orders = {(own, own, OTHER): 2, (OTHER, own): 2, (OTHER, own, OTHER, OTHER): 2, (own, THIRD, OTHER): 2}
    for number, (order, shown) in enumerate(orders.items()):
        case = measured(*order, m=10 + number)
        resolver = resolver_of()
        taken = resolver.chain(case)["profile"].measurement
        assert taken is not None
        assert (taken.runtime, taken.run) == (order[shown - 1], f"run-{shown - 1}")
        assert (case in resolver.unjudged) == (taken.runtime == THIRD)


def test_failure_of_another_runtime_is_not_reused(measured, resolver_of):
    step = resolver_of().chain(measured(OTHER, status="failed"))["profile"]
    assert (step.state, step.why) == ("missing", "another runtime failed to measure it")
    assert resolver_of().chain(measured(TOOLCHAIN.runtime_digest, m=5, status="failed"))["profile"].state == "failed"


@pytest.mark.parametrize(("runtime", "again"), [(OTHER, True), (TOOLCHAIN.runtime_digest, False), (None, False)])
def test_case_that_another_runtime_could_not_run_is_tried_again(runtime, again, resolver_of):
    facts = {"verification": "not compared", **({"runtime_digest": runtime} if runtime else {})}
    failed = Record(Key("k"), "verify", False, "run failed: died by SIGSEGV", facts=facts)
    assert (resolver_of().reason_to_retry(failed) is not None) == again


def test_measurement_of_an_unknown_runtime_counts(measured, resolver_of):
    resolver = resolver_of()
    assert resolver.chain(measured(None))["profile"].state == "made"
    assert resolver.unjudged == {}


def test_judgement_of_few_controls_is_repeated_once_more_are_available(measured, judge, resolver_of):
    judge(judgement(control()))
    one, two = measured(OTHER), measured(OTHER, m=5)

    def asked(*cases):
        resolver = resolver_of()
        chains = [resolver.chain(case) for case in cases]
        assert list(resolver.unjudged) == list(cases)
        return [len(chosen) for _, chosen in questions(chains, resolver.reuse.judged, 0.1, "now")]

    assert asked(one) == []
    assert asked(one, two) == [2]


UNKNOWN = judgement(*(Control(name, True, Comparison(1.1, 0.9, 1.3, 28, "undecided"), None, (), ()) for name in "abc"))


def test_judgement_of_undecided_controls_is_unknown_and_another_run_repeats_it(measured, judge, resolver_of):
    case = measured(OTHER)
    judge(UNKNOWN)
    resolver = resolver_of()
    step = resolver.chain(case)["profile"]
    assert (UNKNOWN.verdict, UNKNOWN.moved, step.state) == ("unknown", False, "made")
    assert step.doubt == f"unknown whether the runtime moved: {UNKNOWN.text}"
    assert list(resolver.unjudged) == [case]
    chains = [*resolver.unjudged.values()]
    assert questions(chains, resolver.reuse.judged, 0.1, "another run")
    assert not questions(chains, resolver.reuse.judged, 0.1, UNKNOWN.run)


def test_row_of_another_runtime_says_that_no_control_was_run(measured, judge, resolver_of):
    case = measured(OTHER)
    assert resolver_of().chain(case)["profile"].doubt.startswith("runtime not verified: ")
    judge(HELD)
    assert resolver_of().chain(case)["profile"].doubt is None


@pytest.mark.parametrize("one", [OTHER, TOOLCHAIN.runtime_digest])  # the same two: recorded with any third runtime
def test_verification_of_another_runtime_does_not_count_if_a_control_is_wrong(measured, judge, resolver_of, one):
    case = measured(OTHER)
    judge(judgement(control(failure=f"{runtime_drift.UNSOUND}exit code 7")), one)
    assert resolver_of().chain(case).pending("profile")[-2:] == ["verify", "profile"]


def test_failed_measurement_does_not_replace_a_complete_one(measured, records, resolver_of):
    case = measured(TOOLCHAIN.runtime_digest)
    key = resolver_of().chain(case)["profile"].key
    facts = {"runtime_digest": TOOLCHAIN.runtime_digest}
    records.end_measurement(records.begin_measurement(key, {}, {}, "later"), "failed", "block_limit=0.01", facts)
    step = resolver_of().chain(case)["profile"]
    assert (step.state, step.measurement.status) == ("made", "measured")
    assert step.doubt == "a later measurement failed: block_limit=0.01"


def test_controls_are_the_shortest_the_longest_that_is_cheap_and_one_between(measured, resolver_of):
    times = {m: 10.0**m for m in range(2, 11)}
    chains = [resolver_of().chain(measured(OTHER, m=m, ns=ns)) for m, ns in times.items()]
    assert [chain.case.operation.sizes[0] for chain in choose(chains, 0.1)] == [2, 5, 8]
    assert [chain.case.operation.sizes[0] for chain in choose(chains[-2:], 0.1)] == [9]
    assert [chain.case.operation.sizes[0] for chain in choose(chains[:2], 0.1)] == [2, 3]
    twin = [chains[0], chains[0]]
    assert len(choose(twin, 0.1)) == 1
    assert choose([], 0.1) == []


def test_each_pair_of_runtimes_has_its_own_judgement(measured, resolver_of):
    resolver = resolver_of()
    chains = [resolver.chain(measured(runtime, m=m)) for m, runtime in ((2, OTHER), (3, THIRD), (5, OTHER))]
    found = questions(chains, resolver.reuse.judged, 0.1, "now")
    assert [([c.case.operation.sizes[0] for c in group], len(chosen)) for group, chosen in found] == [
        ([2, 5], 2),
        ([3], 1),
    ]


@pytest.mark.parametrize("found", [HELD, MOVED, judgement(control(failure="benchmark failed"))])
def test_recorded_judgement_is_read_back_unchanged(found):
    assert runtime_drift.from_json(found.json()) == found


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            HELD,
            "runtime 3.12.0 → 3.13.0 on local-sync: 3 controls, held (largest change +0.0%, between +0.0% and +0.0%)",
        ),
        (
            judgement(control(1.01)),
            "runtime 3.12.0 → 3.13.0 on local-sync: 1 control, held (largest change +1.0%, between +1.0% and +1.0%)",
        ),
        (MOVED, "runtime moved: 3.12.0 → 3.13.0 on local-sync: b +50.0%, between +50.0% and +50.0%"),
        (judgement(control(2.0), control(failure="died")), "runtime moved: 3.12.0 → 3.13.0 on local-sync: a died"),
        (
            judgement(Control("a", False, Comparison(0.9, None, None, 3, "undecided"), None, (), ())),
            "runtime 3.12.0 → 3.13.0 on local-sync: 1 control, unknown (largest change -10.0%; 1 undecided; "
            "compared with recorded blocks: the old runtime is not available)",
        ),
    ],
)
def test_a_judgement_is_printed_in_one_line(found, text):
    assert found.text == text


class Noisy(Controls):
    """Controls (cases that two runtimes run) whose block times are simulated noise.

    With the new runtime, control i is slower by the fraction `effects[i]`."""

    def __init__(self, noise, effects, lot):
        executor = SimpleNamespace(store=None, resolver=None, run=lot.random())
        super().__init__(executor, None, None, Progress({}).say)
        self.noise, self.effects, self.blocks = noise(lot), effects, 0

    def _block(self, trial, tools):
        self.blocks += 1
        return 1e5 * next(self.noise) * (1 + self.effects[trial] * (tools == "new"))

    def judged(self, together=True):
        sides = [_Sides("c", i, SimpleNamespace(blocks_ns=[]), together) for i in range(len(self.effects))]
        self._rounds(sides, "old", "new")
        return judgement(*(side.control() for side in sides))


@pytest.mark.parametrize("noise", NOISES)
def test_few_of_two_hundred_upgrades_without_a_change_raise_an_alarm(noise):
    lot = random.Random(noise.__name__)
    alarms = sum(Noisy(noise, (0, 0, 0), lot).judged().moved for _ in range(200))
    assert alarms <= 3  # at most 0.6 (0.32 % of 200) are expected; more than 3 come once in 200 tests


@pytest.mark.parametrize("noise", [drifting, bursts])
def test_a_launch_that_takes_a_tenth_longer_is_noticed_in_the_shortest_case_alone(noise):
    lot = random.Random(noise.__name__)
    assert sum(Noisy(noise, (0.1, 0.01, 0), lot).judged().moved for _ in range(50)) >= 47


def test_quiet_controls_take_half_the_rounds_and_so_do_those_that_plainly_moved():
    def quiet(lot):
        while True:
            yield 1 + lot.uniform(-0.002, 0.002)

    for effects, moved in (((0, 0, 0), False), ((0.5, 0, 0), True)):
        found = Noisy(quiet, effects, random.Random(1))
        assert found.judged().moved == moved
        assert found.blocks == runtime_drift.FIRST_ROUNDS * 3 * 2


def test_measurement_of_another_machine_is_repeated_here(records, measured, resolver_of):
    case = measured()
    key = resolver_of().chain(case)["profile"].key
    for machine in ("here", "there"):
        taken = records.begin_measurement(key, {}, {}, f"run of {machine}")
        records.add_block(taken, 0, 100.0, None, 0.1)
        conditions = {"host": f"box {machine}", "machine": machine, "runtime_digest": TOOLCHAIN.runtime_digest}
        records.end_measurement(taken, "measured", None, conditions)

    here, there, elsewhere = (resolver_of(machine=name).chain(case)["profile"] for name in ("here", "there", "else"))

    assert (here.state, here.measurement.run) == ("made", "run of here")
    assert (there.state, there.measurement.run) == ("made", "run of there")
    assert (elsewhere.state, elsewhere.why) == ("missing", "measured on another machine, box there")
