"""If a run is killed, or two runs overlap, finished work stays and the next run does the rest."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.project import (
    NAME,
    Project,
    assert_each_row_once,
    assert_the_next_run_goes_on,
    assert_whole,
    recorded,
    sweep,
)
from support.tools import QUESTIONS, finished, kill, processes_in, toolchain, wait_until

from dispatchflow.timing.protocols import PROTOCOLS
from dispatchflow.timing.statistics import decided

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree


# --- kill -9


@pytest.mark.parametrize("rounds", [12, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.nightly])])
def test_kill_9_at_any_moment_loses_at_most_what_was_in_flight(rounds: int, tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p", sweep(m=[4, 5, 6, 7], n=8, k=8, target="vmvx"))
    chance = random.Random(rounds)
    done: set[tuple[object, ...]] = set()

    for number in range(rounds):
        # All cases, or one case, which may be finished in time; in the second half, finished cases are measured again.
        words = chance.choice([["profile:*"], [f"profile:*_{chance.choice('4567')}x*"]])
        again = ["remeasure=yes"] if number > rounds // 2 else []
        process = project.start("-n", "2", "protocol=fast", *words, *again)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=chance.uniform(0.1, 1.4))
        before = recorded(project)
        kill(process)

        assert process.returncode in (0, -signal.SIGKILL), process.communicate()
        assert wait_until(lambda: not processes_in(project.root), 20), processes_in(project.root)
        if done or before:
            assert_whole(project)
            assert done | before <= recorded(project)
        done = recorded(project)

    assert_the_next_run_goes_on(project, done)
    assert {row["case"] for row in project.rows()} == {
        f"matmul_{m}x8x8_f32t_f32t_f32t_default@vmvx-1t" for m in (4, 5, 6, 7)
    }
    assert all(row["verification"] in ("equal", "within bound") for row in project.rows())
    assert list((project.store / "tmp").iterdir()) == []
    idle = project.doit("-n", "2", "protocol=fast")
    assert "4 cases: up to date (4 reused)" in idle.out


def test_a_compile_killed_on_its_way_is_made_by_the_next_run(copied: Project) -> None:
    copied.add(sweep(m=[20, 28]))
    process = copied.start("-n", "2", "verify")
    assert wait_until(lambda: any("iree-compile" in words for words in processes_in(copied.root)))
    kill(process)

    assert wait_until(lambda: not processes_in(copied.root), 20)
    outcome = copied.doit("-n", "2", "verify")
    assert outcome.code == 0, str(outcome)
    assert "6 cases: 4 reused; " in outcome.out and "2 verified in " in outcome.out
    assert_whole(copied)


def test_a_killed_measurement_is_measured_again_and_its_blocks_stay(copied: Project) -> None:
    def blocks() -> int:
        return int(copied.query("select count(*) from block")[0][0])

    before = blocks()
    process = copied.start("protocol=fast", "remeasure=yes", f"profile:{NAME}")
    assert wait_until(lambda: blocks() >= before + 2)
    kill(process)
    after = blocks()

    again = copied.doit("protocol=fast", "remeasure=yes", f"profile:{NAME}")

    assert "1 case: 1 measured in " in again.out, str(again)
    assert blocks() >= after + 6
    assert len(copied.rows()) == 5
    assert_each_row_once(copied)


def test_rows_recorded_but_not_written_are_written_by_the_next_run(copied: Project) -> None:
    rows = copied.rows()
    for path in (copied.store / "results").iterdir():
        path.unlink()
    assert copied.rows() == []

    assert copied.doit("protocol=fast").code == 0

    assert copied.rows() == rows


# --- invocations at the same time


@dataclass(frozen=True)
class Span:
    tool: str
    begin: int
    end: int


# A span begins before the tool and ends after it: tools whose spans do not overlap did not overlap.
LOGGED = """\
begin=$(/bin/date +%s%N)
$real "$@"
code=$?
tool={tool}
case "$tool $*" in iree_benchmark_module*xf32=1\\ *|iree_benchmark_module*xi32=1\\ *) tool=anchor;; esac
case "$*" in {QUESTIONS}) ;; *) echo "$tool $begin $(/bin/date +%s%N)" >> {log};; esac
exit $code"""


def logged_tools(folder: Path, log: Path) -> dict[str, str]:
    tools = ("iree_compile", "iree_run_module", "iree_benchmark_module")
    return {
        "PYTHONPATH": toolchain(
            folder, **{tool: LOGGED.format(tool=tool, log=log, QUESTIONS=QUESTIONS) for tool in tools}
        )
    }


def spans(log: Path) -> list[Span]:
    return [Span(tool, int(begin), int(end)) for tool, begin, end in map(str.split, log.read_text().splitlines())]


def costs_of_the_newest(count: int, project: Project) -> list[list[float]]:
    newest = project.query("select id from measurement order by id desc limit ?", count)
    costs = "select cost_s from block where measurement = ? order by number"
    return [[cost for (cost,) in project.query(costs, number)] for (number,) in newest]


@pytest.mark.parametrize(
    ("invocations", "jobs"),
    [
        pytest.param(1, 8, id="one with -n 8", marks=pytest.mark.slow),
        pytest.param(2, 2, id="two with -n 2"),
        pytest.param(4, 2, id="four with -n 2"),
    ],
)
def test_measurements_are_alone_and_nothing_is_made_twice(
    invocations: int, jobs: int, copied: Project, tmp_path: Path
) -> None:
    tools = logged_tools(tmp_path / "tools", tmp_path / "log")
    (copied.root / "specs/a.toml").write_text(sweep(m=16))
    copied.add(sweep(m=[4, 5, 6], target=["llvm-cpu", "vmvx"]))
    assert copied.doit("plan", "protocol=fast", **tools).code == 0  # asks the tools for their versions, once
    words = ["profile:*", "profile:*_[45]x*", "profile:*@vmvx*", "profile:*_[56]x*"]
    before = copied.counts()

    started = [copied.start("-n", str(jobs), "protocol=fast", words[i], **tools) for i in range(invocations)]
    outcomes = [finished(process) for process in started]

    assert [outcome.code for outcome in outcomes] == [0] * invocations, outcomes
    assert all(" failed" not in outcome.out.splitlines()[-1] for outcome in outcomes)
    found = sorted(spans(tmp_path / "log"), key=lambda span: span.begin)
    tool = Counter(span.tool for span in found)
    # The scripts make this another toolchain: the old case is compiled again, to the same code, and is only a control.
    assert tool["iree_compile"] == 1 + 6
    made = {stage: count - before[stage] for stage, count in copied.counts().items()}
    assert made == {"emit": 3, "compile": 7, "verify": 6, "profile": 6}
    assert tool["iree_run_module"] == 2 * 2 * (6 + 1)  # two recipes × two calls, for six cases and a control
    assert copied.query("select count(*) from measurement where status = 'open'") == [(0,)]
    twice = copied.query("select key, count(*) from measurement group by key having count(*) > 1")
    assert twice == []
    blocks = costs_of_the_newest(6, copied)
    for costs in blocks:
        assert decided(len(costs), sum(costs), PROTOCOLS["fast"])
        assert not decided(len(costs) - 1, sum(costs[:-1]), PROTOCOLS["fast"]), f"more than is due: {costs}"
    ((judgement,),) = copied.query("select value from remembered where name glob 'runtimes:*'")
    (control,) = json.loads(judgement)["controls"]
    # There may be more calls of the tool than blocks: a block that took too little time is measured again.
    assert tool["iree_benchmark_module"] >= sum(map(len, blocks)) + len(control["new_ns"])
    assert tool["anchor"] >= 2 * 9  # two anchors in each of nine rounds
    for index, span in enumerate(found):
        if span.tool in ("iree_benchmark_module", "anchor"):
            others = [other for other in found if other is not span]
            beside = [other for other in others if other.begin < span.end and span.begin < other.end]
            assert beside == [], f"{span} of {len(found)} at {index}"
    assert_whole(copied)
    assert_each_row_once(copied)
    assert "7 cases: up to date (7 reused)" in copied.doit("protocol=fast", **tools).out


def test_compiles_of_two_invocations_do_run_at_the_same_time(copied: Project, tmp_path: Path) -> None:
    # The previous test would also pass if a lock prevented all parallel work.
    tools = logged_tools(tmp_path / "tools", tmp_path / "log")
    copied.add(sweep(m=list(range(2, 10))))
    assert copied.doit("plan", **tools).code == 0

    for process in [copied.start("-n", "2", words, **tools) for words in ("compile:*_[2345]x*", "compile:*_[6789]x*")]:
        assert finished(process).code == 0

    found = spans(tmp_path / "log")
    assert len(found) == 8
    assert any(a.begin < b.begin < a.end for a in found for b in found)


def test_another_invocation_waits_for_a_measurement_and_takes_it(copied: Project) -> None:
    copied.add(sweep(m=20))
    started = [copied.start("protocol=fast", "profile:*_20x*") for _ in range(2)]

    outcomes = [finished(process) for process in started]

    assert [outcome.code for outcome in outcomes] == [0, 0]
    (key,) = {row["measurement_key"] for row in copied.rows() if row["m"] == 20}
    assert copied.query("select count(*) from measurement where key = ?", key) == [(1,)]
    assert len([row for row in copied.rows() if row["m"] == 20]) == 1
