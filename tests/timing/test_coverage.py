"""In small simulations, a session's intervals contain the medians of another session often enough.

A session consists of the measurements of one run. `python -m benchmarks.coverage` and `python -m benchmarks.sessions`
print the complete tables."""

from itertools import pairwise
from random import Random

import pytest

from benchmarks import sessions
from benchmarks.coverage import MODELS, coverage
from dispatchflow.timing.protocols import PROTOCOLS


@pytest.mark.parametrize("protocol", ["std", pytest.param("fast", marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_another_session_s_median_is_inside_in_nine_of_ten_of_the_nominal_cases(model, protocol):
    # The limit is 85.5 % minus 1.5 standard errors of 300 machines.
    found = coverage(model, PROTOCOLS[protocol], machines=300, sessions=12)
    assert found["±"] >= 0.825, found
    assert found["anchored"] >= 0.825, found


@pytest.mark.parametrize(("name", "held"), [("independent, 1 %", 0.93), ("correlated, ρ = 0.5, 1 %", 0.83)])
def test_an_interval_within_a_session_contains_the_level_of_its_blocks_often_enough(name, held):
    (model,) = (model for model in MODELS if model.name == name)
    assert coverage(model, PROTOCOLS["std"], machines=60, sessions=3)["here"] >= held


def test_anchored_interval_is_half_as_wide_where_sessions_move_together():
    (model,) = (model for model in MODELS if model.session_sd == 0.05)
    found = coverage(model, PROTOCOLS["std"], machines=60, sessions=12)
    assert found["anchored width"] < found["± width"] / 2


def row(median_ns, half, factor):
    interval = {"later_low_ns": median_ns * (1 - half), "later_high_ns": median_ns * (1 + half)}
    anchored_ns = median_ns / factor
    return {
        "status": "measured", "median_ns": median_ns, "ci_low_ns": None, **interval, "anchored_median_ns": anchored_ns,
        "anchored_low_ns": anchored_ns * 0.99, "anchored_high_ns": anchored_ns * 1.01,
    }  # fmt: skip


def test_table_of_separate_runs_counts_the_next_one_and_all_pairs():
    runs = [{"a": row(100.0 * f, 0.06, f)} for f in (1.0, 1.05, 1.2)]
    plain = sessions._covered(runs, sessions.INTERVALS["± (another session)"])
    assert (plain["next inside"], plain["any other inside"], plain["apart"]) == ("50.0%", "33.3%", "66.7%")
    anchored = sessions._covered(runs, sessions.INTERVALS["anchored"])
    assert (anchored["next inside"], anchored["apart"], anchored["spread"]) == ("100.0%", "0.0%", "0.00%")
    assert sessions._covered(runs, sessions.INTERVALS["within the session"]) == {}


def test_next_run_is_the_one_that_follows_and_not_the_next_one_that_states_an_interval():
    runs = [{"a": row(100.0, 0.06, f)} for f in (1.0, 1.0, 1.2, 1.2)]
    runs[2]["a"] |= dict.fromkeys(sessions.INTERVALS["anchored"])
    assert sessions._covered(runs, sessions.INTERVALS["anchored"])["next inside"] == "100.0%"


def test_each_run_has_a_copy_of_what_the_runs_before_it_left(tmp_path, monkeypatch):
    # A case's sensitivity is learned from the measurements that earlier runs left in the store.
    seen, files = [], []

    def run(argv, project):
        left = project / ".dispatchflow/measured"
        if "verify" in argv:
            left.parent.mkdir()
            left.write_text("")
            return
        seen.append(left.read_text())
        files.append(left.stat().st_ino)
        left.write_text(f"{seen[-1]}{len(seen)} ")

    monkeypatch.setattr(sessions.timing, "run", run)
    monkeypatch.setattr(sessions.parquet, "read", lambda folder: [full_row("a", len(seen))])
    sessions.measure(tmp_path, "fast", "quiet", 2)
    sessions.measure(tmp_path, "fast", "quiet", 3)  # a later call continues
    assert seen == ["", "1 ", "1 2 "]
    assert all(one != other for one, other in pairwise(files))
    assert [run["a"]["median_ns"] for run in sessions.read(tmp_path / "fast-quiet.jsonl")] == [1, 2, 3]
    sessions.measure(tmp_path, "std", "quiet", 1)
    assert seen[3] == ""  # other conditions have a history of their own


def full_row(case, measured_at):
    return {**dict.fromkeys(sessions._KEPT, 1.0), "case": case, "measured_at": measured_at, "median_ns": measured_at}


def test_run_has_the_newest_row_of_each_case():
    rows = [full_row("a", 2), full_row("b", 1), full_row("a", 3), full_row("a", 1)]
    assert {case: row["median_ns"] for case, row in sessions.newest(rows).items()} == {"a": 3, "b": 1}


def test_noise_models_are_about_their_centre():
    for model in MODELS:
        noise = model.noise(Random(1))
        assert all(-0.5 < next(noise) < 0.5 for _ in range(100))
