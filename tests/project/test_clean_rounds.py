"""Runs and `doit store clean` work on one store at the same time without disturbing each other.

The test repeats this in many rounds."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from support.project import Project, sweep
from support.sound_store import assert_whole
from support.tools import finished

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree


@pytest.mark.parametrize("rounds", [4, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.nightly])])
def test_runs_and_cleans_at_once_give_the_right_results(rounds: int, tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p", sweep(m=[4, 5, 6, 7], n=8, k=8, target="vmvx"))
    measured = [["-n", "2", "protocol=fast"]] if rounds > 10 else []
    runs = [["-n", "2", "verify"], ["verify:*_[45]x*"], *measured]
    cleans = [["keep=0"], ["limit=5KiB"], ["keep=referenced", "m=4", "n=8", "k=8"]]
    chance, said = random.Random(rounds), ""

    for number in range(rounds):
        started = [project.start(*chance.choice(runs))]
        for words in chance.sample([chance.choice(runs), ["store", "clean", *cleans[number % 3]]], 2):
            time.sleep(chance.uniform(0, 0.8))
            started.append(project.start(*words))
        outcomes = [finished(process) for process in started]
        assert [outcome.code for outcome in outcomes] == [0, 0, 0], outcomes
        lines = [outcome.out.splitlines()[-1] for outcome in outcomes]
        assert sum(" cases: " in line and " failed" not in line for line in lines) == 2, outcomes
        said += "".join(outcome.out for outcome in outcomes)
        assert_whole(project)

    assert "waits until" in said
    assert "removed" in said
    last = ["-n", "2", "protocol=fast"] if measured else ["-n", "2", "verify"]
    assert project.doit(*last).code == 0
    assert_whole(project)
    assert project.query("select count(*) from record where not ok") == [(0,)]
    assert project.query("select count(*) from measurement where status = 'failed'") == [(0,)]
    assert all(row["verification"] in ("equal", "within bound") for row in project.rows())
    assert "4 cases: up to date (4 reused)" in project.doit(*last).out
