"""A session measures its cases in rounds.

A round has one block of each case and each anchor. A block is one benchmark process. An anchor is a kernel that never
changes. Rounds are spread over time by pauses. Blocks that waited for a CPU are repeated."""

from collections import Counter
from types import SimpleNamespace

import pytest

from dispatchflow.errors import ToolError
from dispatchflow.iree.benchmark_output import Block
from dispatchflow.iree.targets import Device
from dispatchflow.keys import digest_of
from dispatchflow.measurement import anchor_trials
from dispatchflow.measurement import session as rounds
from dispatchflow.measurement.anchor_trials import AnchorTrial
from dispatchflow.measurement.anchors import PROTOCOL, History
from dispatchflow.measurement.trials import Trial
from dispatchflow.store.store import Store
from dispatchflow.timing.protocols import PROTOCOLS

BLOCKS = PROTOCOLS["std"].blocks


@pytest.fixture
def taken(monkeypatch):
    """Replace `run_block`, which measures one block, by a function that measures nothing.

    The fixture's value is a list. Each call of the function appends the label of the trial to which the block
    belongs. A trial is one measurement, which consists of blocks."""
    labels = []

    def run_block(bench, toolchain, trial):
        labels.append(trial.label)
        return Block(1e6, {}, 10), 0.3

    monkeypatch.setattr(rounds, "run_block", run_block)
    return labels


@pytest.fixture
def session(tmp_path):
    bench = SimpleNamespace(store=Store(tmp_path / "store"))
    toolchain = SimpleNamespace(runtime_version="3.13.0", runtime_digest="r", version="3.13.0")
    return rounds.Session(bench, toolchain, "run", sleep=lambda seconds: None)


def trials(session, shapes, protocol="std"):
    """Add trials (measurements of cases) to the session, and return them.

    `shapes` is a dict from a shape to its number of trials. The first trial of each shape is added, then the second
    trial of each shape, and so on."""
    names = sorted((number, shape) for shape, count in shapes.items() for number in range(count))
    return [
        session.add(
            Trial(
                digest_of(f"{shape}{number}".encode()), f"{shape}{number}", {}, (), Device("local-sync", 1, (0,), "d"), {},
                PROTOCOLS[protocol], shape=shape,
            )
        )
        for number, shape in names
    ]  # fmt: skip


def test_many_cases_are_measured_in_groups_and_a_shape_is_in_one_group(session, taken):
    pending = trials(session, {"a": 50, "b": 5, "c": 20, "d": 60})

    session.measure_until_decided(pending[0])
    while any(trial.claimed and trial.outcome is None for trial in pending):
        session.measure_until_decided(next(trial for trial in pending if trial.claimed and trial.outcome is None))

    # 60 budgets of `std` are ten minutes, the limit of a group: with the cases of c it would exceed this limit.
    assert Counter(label[0] for label in taken) == {"a": 50 * BLOCKS, "b": 5 * BLOCKS}
    assert {label[0] for label in taken[:55]} == {label[0] for label in taken[-55:]} == {"a", "b"}
    assert [trial.outcome for trial in pending if trial.shape in "cd"] == [None] * 80
    assert all(session._store.records.measurement(trial.key) for trial in pending if trial.shape in "ab")

    for trial in pending:
        session.measure_until_decided(trial)
    assert "".join(sorted({label[0] for label in taken[55 * BLOCKS : 75 * BLOCKS]})) == "c"
    assert {trial.outcome for trial in pending} == {"measured"}


def test_a_shape_with_more_cases_than_a_group_is_measured_together(session, taken):
    pending = trials(session, {"a": 90, "b": 1})
    session.measure_until_decided(pending[0])
    assert set(taken[:90]) == {f"a{number}" for number in range(90)}


def test_few_cases_are_measured_together_whatever_their_shapes(session, taken):
    pending = trials(session, {"a": 1, "b": 2, "c": 1})
    session.measure_until_decided(pending[0])
    assert set(taken[:4]) == {"a0", "b0", "b1", "c0"}


def test_a_case_that_is_added_later_joins_the_rounds(session, taken):
    pending = trials(session, {"a": 60, "b": 2})
    session.measure_until_decided(pending[0])
    (late,) = trials(session, {"kernel": 1})
    session.measure_until_decided(late)
    assert late.outcome == "measured"
    for trial in pending:
        session.measure_until_decided(trial)
    assert len(taken) == 63 * BLOCKS


class AnchorSet:
    """A stand-in for `anchor_trials.AnchorSet` that needs no store."""

    def __init__(self, *labels):
        self.trials = [
            AnchorTrial(digest_of(label.encode()), label, {}, (), Device("d", 1, (0,), "d"), {}, PROTOCOL)
            for label in labels
        ]
        self.history = History()

    def failed(self, trial):
        self.trials = [other for other in self.trials if other is not trial]

    def marks(self):
        return {trial.label: len(trial.blocks_ns) for trial in self.trials}

    def moment(self, key, since, blocks_ns):
        found = {trial.label: trial.blocks_ns[since.get(trial.label, 0) :] for trial in self.trials}
        self.history, self.blocks_ns = self.history.with_session("run", found), [*blocks_ns]
        return self.history.moment(found), found


def anchored(session, place, shapes, protocol="fast"):
    found = trials(session, shapes, protocol)
    for trial in found:
        trial.anchors = place
    return found


def test_anchors_have_a_block_in_each_round_of_the_cases(session, taken):
    place = AnchorSet("compute", "read")
    first, second = anchored(session, place, {"a": 1, "b": 1})
    session.measure_until_decided(first)
    session.measure_until_decided(second)

    blocks = PROTOCOLS["fast"].blocks
    assert Counter(taken) == {"a0": blocks, "b0": blocks, "compute": blocks, "read": blocks}
    rounds = [taken[i : i + 4] for i in range(0, len(taken), 4)]
    assert all(sorted(labels) == ["a0", "b0", "compute", "read"] for labels in rounds)
    assert len({tuple(labels) for labels in rounds}) > 2, "the order is drawn"
    conditions = session._store.records.measurement(first.key).conditions
    assert {name: len(ns) for name, ns in conditions["anchors_ns"].items()} == {"compute": blocks, "read": blocks}
    assert conditions["session"]["factor"] == 1.0


def test_a_case_that_comes_later_is_anchored_by_the_blocks_of_its_own_rounds(session, taken):
    place = AnchorSet("compute")
    (first,) = anchored(session, place, {"a": 1})
    session.measure_until_decided(first)
    (second,) = anchored(session, place, {"b": 1})
    session.measure_until_decided(second)
    assert len(place.trials[0].blocks_ns) == 2 * PROTOCOLS["fast"].blocks
    assert place.blocks_ns == second.blocks_ns, "the present run says how much the case feels, too"
    conditions = session._store.records.measurement(second.key).conditions
    assert len(conditions["anchors_ns"]["compute"]) == PROTOCOLS["fast"].blocks


def test_an_anchor_that_fails_is_left_out_and_no_case_fails(session, monkeypatch):
    def run_block(bench, toolchain, trial):
        if trial.label == "compute":
            raise ToolError("exit code 1")
        return Block(1e6, {}, 10), 0.1

    monkeypatch.setattr(rounds, "run_block", run_block)
    place = AnchorSet("compute", "read")
    (trial,) = anchored(session, place, {"a": 1})
    session.measure_until_decided(trial)
    assert (trial.outcome, [anchor.label for anchor in place.trials]) == ("measured", ["read"])


def test_rounds_are_spread_over_the_protocol_s_span(tmp_path, taken, monkeypatch):
    # Blocks right after each other would all run under the same load of the machine.
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(rounds.time, "monotonic", lambda: clock.now)

    def sleep(seconds):
        clock.now += seconds

    bench = SimpleNamespace(store=Store(tmp_path / "store"))
    toolchain = SimpleNamespace(runtime_version="3.13.0", runtime_digest="r", version="3.13.0")
    session = rounds.Session(bench, toolchain, "run", sleep=sleep)
    (trial,) = trials(session, {"a": 1})
    session.measure_until_decided(trial)
    assert clock.now - 100.0 == pytest.approx(PROTOCOLS["std"].span_s)


def test_without_pauses_rounds_follow_each_other_and_the_measurement_records_it(tmp_path, taken):
    waited = []
    bench = SimpleNamespace(store=Store(tmp_path / "store"))
    toolchain = SimpleNamespace(runtime_version="3.13.0", runtime_digest="r", version="3.13.0")
    session = rounds.Session(bench, toolchain, "run", sleep=waited.append, pauses=False)
    (trial,) = trials(session, {"a": 1})
    session.measure_until_decided(trial)
    assert (trial.outcome, waited) == ("measured", [])
    assert bench.store.records.measurement(trial.key).conditions["pauses"] is False


@pytest.fixture
def waiting(monkeypatch):
    """Replace `run_block`; return an empty list to which tests add the results of future blocks.

    An entry is (waited, time in ns). `waited` is the fraction of the time in which the block waited for a CPU, or None
    if the fraction is unknown. Without an entry, a block takes 1 ms and hardly waits."""
    coming = []

    def run_block(bench, toolchain, trial):
        waited, ns = coming.pop(0) if coming else (0.001, 1e6)
        return Block(ns, {}, 10, waited), 0.3

    monkeypatch.setattr(rounds, "run_block", run_block)
    return coming


def test_a_block_that_waited_for_a_cpu_is_taken_again(session, waiting):
    waiting += [(0.25, 9e6), (0.001, 1e6), (0.5, 9e6)]
    (trial,) = trials(session, {"a": 1})
    session.measure_until_decided(trial)
    assert (trial.outcome, trial.blocks_ns, trial.retaken) == ("measured", [1e6] * BLOCKS, 2)
    recorded = session._store.records.measurement(trial.key)
    assert recorded.blocks_ns == (1e6,) * BLOCKS
    assert (recorded.conditions["disturbed_blocks"], recorded.conditions["retaken_blocks"]) == (0, 2)


def test_a_steady_time_of_blocks_that_waited_for_a_cpu_is_not_trusted(session, waiting):
    # A busy process on one of the CPUs made a time 11 times too long, with an interval of only ±0.1 %.
    waiting += [(0.25, 11e6)] * 100
    (trial,) = trials(session, {"a": 1})
    session.measure_until_decided(trial)
    assert (trial.outcome, len(trial.blocks_ns), trial.retaken) == ("noisy", BLOCKS, BLOCKS // 2)
    recorded = session._store.records.measurement(trial.key)
    assert recorded.disturbed
    assert recorded.noisy_above(0.5), "whatever the user calls noisy"


def test_a_quarter_of_the_blocks_may_have_waited(session, waiting):
    waiting += [(0.25, 9e6)] * (BLOCKS // 2 + BLOCKS // 4)
    (trial,) = trials(session, {"a": 1})
    session.measure_until_decided(trial)
    assert (trial.outcome, trial.disturbed_blocks) == ("measured", BLOCKS // 4)


def test_blocks_are_taken_again_within_the_budget_only(session, waiting, monkeypatch):
    monkeypatch.setattr(Trial, "spent", lambda trial, block, wall_s: trial.protocol.budget_s)
    waiting += [(0.25, 9e6)]
    (trial,) = trials(session, {"a": 1})
    session.measure_until_decided(trial)
    assert (trial.blocks_ns, trial.retaken, trial.outcome) == ([9e6], 0, "noisy")


def test_blocks_count_as_they_are_if_the_kernel_reports_no_waits(session, waiting):
    waiting += [(None, 1e6)] * BLOCKS
    (trial,) = trials(session, {"a": 1})
    session.measure_until_decided(trial)
    assert trial.outcome == "measured"
    assert session._store.records.measurement(trial.key).conditions["disturbed_blocks"] is None


def test_a_session_whose_anchors_waited_for_cpus_does_not_enter_the_history(tmp_path):
    # Otherwise one session on a busy machine would make all intervals too wide.
    records, key = Store(tmp_path / "store").records, digest_of(b"case")

    def spread(run, ns, waited):
        anchors = [AnchorTrial(key, label, {}, (), Device("d", 1, (0,), "d"), {}, PROTOCOL) for label in ("a", "b")]
        for anchor in anchors:
            anchor.blocks_ns, anchor.waits = [ns, ns], [waited, waited]
        moment, found = anchor_trials.AnchorSet("anchors", records, None, {}, run, anchors).moment(key, {}, [ns])
        assert set(found) == {"a", "b"}  # the row still has the factor of its session
        return moment

    spread("first", 100.0, 0.0)
    crowded = spread("crowded", 1000.0, 0.5)
    assert (crowded.factor, crowded.sessions) == (pytest.approx(10), 1)
    assert spread("quiet", 101.0, None).sessions == 2
    assert spread("slow", 1000.0, 0.0).sessions == 3  # slower, but no block waited for a CPU
