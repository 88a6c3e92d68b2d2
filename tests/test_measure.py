"""Rounds: what is in them together, and what an interruption loses."""

from collections import Counter
from types import SimpleNamespace

import pytest

from dispatchflow import measure
from dispatchflow.blocks import Block
from dispatchflow.keys import digest_of
from dispatchflow.protocols import PROTOCOLS
from dispatchflow.store import Store
from dispatchflow.targets import Device


@pytest.fixture
def taken(monkeypatch):
    """The labels of the trials whose blocks were run, as they came; every block takes the same."""
    labels = []

    def run_block(bench, toolchain, trial):
        labels.append(trial.label)
        return Block(1e6, {}, 10), 0.3

    monkeypatch.setattr(measure, "run_block", run_block)
    return labels


@pytest.fixture
def session(tmp_path):
    bench = SimpleNamespace(store=Store(tmp_path / "store"))
    toolchain = SimpleNamespace(runtime_version="3.13.0", runtime_digest="r", version="3.13.0")
    return measure.Session(bench, toolchain, "run")


def trials(session, shapes, protocol="std"):
    """So many of each shape, by turns, as parallel verifications end."""
    names = sorted((number, shape) for shape, count in shapes.items() for number in range(count))
    return [
        session.add(
            measure.Trial(
                digest_of(f"{shape}{number}".encode()), f"{shape}{number}", {}, (), Device("local-sync", 1, (0,), "d"), {},
                PROTOCOLS[protocol], shape=shape,
            )
        )
        for number, shape in names
    ]  # fmt: skip


def test_many_cases_are_measured_group_by_group_and_a_shape_s_are_in_one(session, taken):
    pending = trials(session, {"a": 50, "b": 5, "c": 20, "d": 60})

    session.decide(pending[0])
    while any(trial.claimed and trial.outcome is None for trial in pending):
        session.decide(next(trial for trial in pending if trial.claimed and trial.outcome is None))

    # 60 budgets of `std` are ten minutes: c would be too many beside a and b.
    assert Counter(label[0] for label in taken) == {"a": 50 * 6, "b": 5 * 6}
    assert {label[0] for label in taken[:55]} == {label[0] for label in taken[-55:]} == {"a", "b"}
    assert [trial.outcome for trial in pending if trial.shape in "cd"] == [None] * 80
    assert all(session._store.records.measurement(trial.key) for trial in pending if trial.shape in "ab")

    for trial in pending:
        session.decide(trial)
    assert "".join(sorted({label[0] for label in taken[330 : 330 + 120]})) == "c"
    assert {trial.outcome for trial in pending} == {"measured"}


def test_a_shape_with_more_cases_than_a_group_has_is_measured_together(session, taken):
    pending = trials(session, {"a": 90, "b": 1})
    session.decide(pending[0])
    assert set(taken[:90]) == {f"a{number}" for number in range(90)}


def test_few_cases_are_measured_together_whatever_their_shapes(session, taken):
    pending = trials(session, {"a": 1, "b": 2, "c": 1})
    session.decide(pending[0])
    assert set(taken[:4]) == {"a0", "b0", "b1", "c0"}


def test_what_is_wanted_in_the_middle_joins_the_rounds(session, taken):
    pending = trials(session, {"a": 60, "b": 2})
    session.decide(pending[0])
    (late,) = trials(session, {"kernel": 1})
    session.decide(late)
    assert late.outcome == "measured"
    for trial in pending:
        session.decide(trial)
    assert len(taken) == 63 * 6
