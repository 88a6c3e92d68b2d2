"""Killed, interrupted, run twice at once, damaged: what was finished stays, and the next run goes on."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from real import Project, finished, kill, processes_in, sweep, toolchain, wait_until

from dispatchflow import processes
from dispatchflow.keys import digest_file

pytest_plugins = ["real"]
pytestmark = pytest.mark.iree

NAME = "matmul_16x16x16_f32t_f32t_f32t_default@llvm-cpu-1t"


def assert_whole(project: Project) -> None:
    """What holds at any moment, whatever was killed."""
    assert project.query("pragma integrity_check") == [("ok",)]
    assert project.damaged() == []
    named = project.query("select distinct digest from output join record using (key)")
    missing = [d for (d,) in named if not (project.store / "objects" / d[:2] / d[2:]).is_file()]
    assert missing == []


def assert_each_row_once(project: Project) -> None:
    """Parquet has what the records have, and each of it once."""
    rows = project.rows()
    recorded = project.query("select count(*), count(distinct identity), count(part) from row")
    assert recorded == [(len(rows),) * 3]
    said = ("case", "compile_key", "verify_key", "measurement_key", "blocks_ns")
    results = Counter(str([row[column] for column in said]) for row in rows)
    assert max(results.values()) == 1


# --- kill -9


def recorded(project: Project) -> set[tuple[object, ...]]:
    """Everything finished so far: records, blocks, ended measurements, rows."""
    if not (project.store / "records.sqlite").exists():
        return set()
    try:
        return {
            *project.query("select 'record', key from record"),
            *project.query("select 'block', measurement, number, ns from block"),
            *project.query("select 'measurement', id, status from measurement where status <> 'open'"),
            *project.query("select 'row', identity, content from row"),
        }
    except Exception as error:  # killed before the tables were made
        assert "no such table" in str(error), error
        return set()


@pytest.mark.parametrize("rounds", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_kill_9_at_any_moment_loses_at_most_what_was_in_flight(rounds: int, tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p", sweep(m=[4, 5, 6, 7], n=8, k=8, target="vmvx"))
    chance = random.Random(rounds)
    done: set[tuple[object, ...]] = set()

    for number in range(rounds):
        # All at once, or one case that has a chance to be finished; over and over when all is made.
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

    outcome = project.doit("-n", "2", "protocol=fast")

    assert outcome.code == 0, outcome
    assert "0 failed" in outcome.out.splitlines()[-1]
    assert_whole(project)
    assert done <= recorded(project)
    assert_each_row_once(project)
    assert {row["case"] for row in project.rows()} == {
        f"matmul_{m}x8x8_f32t_f32t_f32t_default@vmvx-1t" for m in (4, 5, 6, 7)
    }
    assert all(row["verification"] in ("equal", "within bound") for row in project.rows())
    assert list((project.store / "tmp").iterdir()) == []
    idle = project.doit("-n", "2", "protocol=fast")
    assert "4 cases: nothing made; 4 reused" in idle.out


def test_a_compile_killed_on_its_way_is_made_by_the_next_run(copied: Project) -> None:
    copied.add(sweep(m=[20, 28]))
    process = copied.start("-n", "2", "verify")
    assert wait_until(lambda: any("iree-compile" in words for words in processes_in(copied.root)))
    kill(process)

    assert wait_until(lambda: not processes_in(copied.root), 20)
    outcome = copied.doit("-n", "2", "verify")
    assert outcome.code == 0, outcome
    assert "2 verified; 4 reused" in outcome.out
    assert_whole(copied)


def test_a_measurement_killed_on_its_way_is_taken_anew_and_its_blocks_stay(copied: Project) -> None:
    def blocks() -> int:
        return int(copied.query("select count(*) from block")[0][0])

    before = blocks()
    process = copied.start("protocol=fast", "remeasure=yes", f"profile:{NAME}")
    assert wait_until(lambda: blocks() >= before + 2)
    kill(process)
    after = blocks()

    counts, _ = copied.made_by("protocol=fast", "remeasure=yes", f"profile:{NAME}")

    assert counts["profile"] == 1
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


# --- interrupted


@pytest.mark.parametrize(
    ("kind", "moment"), [(signal.SIGINT, "compiling"), (signal.SIGINT, "measuring"), (signal.SIGTERM, "measuring")]
)
def test_an_interrupted_run_stops_cleanly_and_the_next_one_goes_on(
    kind: signal.Signals, moment: str, copied: Project
) -> None:
    tool = {"compiling": "iree-compile", "measuring": "iree-benchmark-module"}[moment]
    copied.add(sweep(m=[20, 28]))
    process = copied.start("-n", "2", "protocol=fast")
    assert wait_until(lambda: any(tool in words for words in processes_in(copied.root)))

    # Ctrl-C goes to the terminal's whole process group; `kill PID` to the one process.
    (os.killpg if kind is signal.SIGINT else os.kill)(process.pid, kind)
    outcome = finished(process)

    if kind is signal.SIGINT:
        assert outcome.code in (1, 2, 3, 130)
        assert "interrupted; what was finished is recorded, the next run goes on" in outcome.err
    else:
        assert outcome.code in (1, 2, 3, 143, -signal.SIGTERM)
    assert wait_until(lambda: not processes_in(copied.root), 20), processes_in(copied.root)
    assert_whole(copied)
    assert not copied.query("select reason from record where not ok")

    again = copied.doit("-n", "2", "protocol=fast")
    assert again.code == 0, again
    assert "0 failed" in again.out.splitlines()[-1]
    assert {row["m"] for row in copied.rows()} == {16, 20, 24, 28}
    assert_each_row_once(copied)


def test_what_starts_the_tools_is_out_of_reach_of_ctrl_c_from_its_first_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions: list[int] = []

    class Watched(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *words: object, **named: object) -> None:
            super().__init__(*words, **named)  # type: ignore[call-overload]
            sessions.append(os.getsid(self.pid))

    monkeypatch.setattr(processes, "_local", processes._Local())
    monkeypatch.setattr(processes.subprocess, "Popen", Watched)

    assert processes.run(processes.Command(("/bin/true",), tmp_path)).failure is None
    assert len(sessions) == 1
    assert sessions[0] != os.getsid(0)


# A tool that hangs, once it is asked for more than its version.
HANGS = 'case "$*" in *--version*|*--help*) exec $real "$@";; esac\n/bin/sleep 300 & wait'


KILLED = [(signal.SIGKILL, tool) for tool in ("iree_compile", "iree_run_module", "iree_benchmark_module")]
ASKED = [(signal.SIGINT, "iree_compile"), (signal.SIGTERM, "iree_benchmark_module")]


@pytest.mark.parametrize(("kind", "tool"), KILLED + ASKED)
def test_no_tool_outlives_its_run(kind: signal.Signals, tool: str, copied: Project, tmp_path: Path) -> None:
    """Not even what the tool itself started."""
    tools = {"PYTHONPATH": toolchain(tmp_path / "tools", **{tool: HANGS})}
    copied.add(sweep(m=20))
    process = copied.start("-n", "2", "protocol=fast", "profile:*_20x*", **tools)
    assert wait_until(lambda: any("sleep 300" in words for words in processes_in(copied.root)))

    os.killpg(process.pid, kind)
    process.communicate(timeout=60)

    assert wait_until(lambda: not processes_in(copied.root), 20), processes_in(copied.root)
    assert_whole(copied)
    # Without the tool that hangs, the next run is not kept waiting by anything.
    assert copied.doit("protocol=fast", "profile:*_20x*").code == 0


# --- at once


@dataclass(frozen=True)
class Span:
    tool: str
    begin: int
    end: int


# Begins before the tool and ends after it: what does not overlap here did not overlap there.
LOGGED = """\
begin=$(/bin/date +%s%N)
$real "$@"
code=$?
case "$*" in *--version*|*--help*) ;; *) echo "{tool} $begin $(/bin/date +%s%N)" >> {log};; esac
exit $code"""


def logged_tools(folder: Path, log: Path) -> dict[str, str]:
    tools = ("iree_compile", "iree_run_module", "iree_benchmark_module")
    return {"PYTHONPATH": toolchain(folder, **{tool: LOGGED.format(tool=tool, log=log) for tool in tools})}


def spans(log: Path) -> list[Span]:
    return [Span(tool, int(begin), int(end)) for tool, begin, end in map(str.split, log.read_text().splitlines())]


@pytest.mark.parametrize(
    ("invocations", "jobs"),
    [
        pytest.param(1, 8, id="one with -n 8"),
        pytest.param(2, 2, id="two with -n 2", marks=pytest.mark.slow),
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
    assert all("0 failed" in outcome.out.splitlines()[-1] for outcome in outcomes)
    found = sorted(spans(tmp_path / "log"), key=lambda span: span.begin)
    tool = Counter(span.tool for span in found)
    # Another toolchain by its digests, the same code: the old case is compiled again, and is no more than a control.
    assert tool["iree_compile"] == 1 + 6
    made = {stage: count - before[stage] for stage, count in copied.counts().items()}
    assert made == {"emit": 3, "compile": 7, "verify": 6, "profile": 6}
    assert tool["iree_run_module"] == 2 * 6
    assert copied.query("select count(*) from measurement where status = 'open'") == [(0,)]
    twice = copied.query("select key, count(*) from measurement group by key having count(*) > 1")
    assert twice == []
    newest = "select id from measurement order by id desc limit 6"
    ((blocks,),) = copied.query(f"select count(*) from block where measurement in ({newest})")
    ((judgement,),) = copied.query("select value from remembered where name glob 'runtimes:*'")
    (control,) = json.loads(judgement)["controls"]
    assert tool["iree_benchmark_module"] == blocks + len(control["new_ns"])
    for index, span in enumerate(found):
        if span.tool == "iree_benchmark_module":
            others = [other for other in found if other is not span]
            beside = [other for other in others if other.begin < span.end and span.begin < other.end]
            assert beside == [], f"{span} of {len(found)} at {index}"
    assert_whole(copied)
    assert_each_row_once(copied)
    assert "7 cases: nothing made; 7 reused" in copied.doit("protocol=fast", **tools).out


def test_compiles_of_two_invocations_do_run_at_the_same_time(copied: Project, tmp_path: Path) -> None:
    """What the test above proves is not proved by a lock that lets nothing run beside anything."""
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


# --- damaged

DAMAGES = {
    "a changed byte": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "cut short": lambda content: content[: len(content) // 2],
    "emptied": lambda content: b"",
    "deleted": None,
}


USED = ["module.vmfb", "random_0.bin", "exact_1.bin", "expected_exact.bin", "expected_tolerance.bin"]


@pytest.mark.parametrize(
    ("name", "damage"), [*((name, "a changed byte") for name in USED), *((USED[0], d) for d in list(DAMAGES)[1:])]
)
def test_a_damaged_object_is_made_anew_before_it_is_used(name: str, damage: str, copied: Project) -> None:
    path = (copied.root / "build" / NAME / name).resolve(strict=True)
    content, change = path.read_bytes(), DAMAGES[damage]
    path.unlink()
    if change is not None:
        path.write_bytes(change(content))
    # Verification and what follows is to be done again, with this object.
    other = sweep(m=16, n=16, k=16, tuning="double_tiling_64x64_4x16x1")
    used = {"module.vmfb": [f"profile:{NAME}", "remeasure=yes"]}.get(name, ["verify:*double_tiling*"])
    copied.add(other)

    outcome = copied.doit("protocol=fast", *used)

    assert outcome.code == 0, outcome
    assert path.read_bytes() == content
    assert path.parent.name + path.name == digest_file(path)
    assert_whole(copied)
    assert all(row["verification"] == "within bound" for row in copied.rows())


def test_records_that_are_no_database_are_refused_with_a_way_out(copied: Project) -> None:
    for path in copied.store.glob("records.sqlite*"):
        path.unlink()
    (copied.store / "records.sqlite").write_bytes(b"nonsense" * 1000)

    outcome = copied.doit("protocol=fast")

    assert outcome.code == 2
    assert "the records cannot be read" in outcome.err
    assert copied.doit("report").code == 0


def test_a_part_cut_short_is_named_and_written_again_once_removed(copied: Project) -> None:
    (part,) = (copied.store / "results").iterdir()
    content = part.read_bytes()
    part.write_bytes(content[:100])

    outcome = copied.doit("report")
    assert (outcome.code, "Remove that part" in outcome.err) == (2, True)

    part.unlink()
    assert copied.doit("protocol=fast").code == 0
    assert {row["case"] for row in copied.rows()} == {
        name for (name,) in copied.query("select distinct name from latest")
    }


# --- names


@pytest.mark.parametrize("name", ["a 'b' \"c\" $HOME é 名", "x=1, %s; *?[a]", "you@home"])
def test_a_directory_may_have_any_name(name: str, made: Project, tmp_path: Path) -> None:
    project = made.copy(tmp_path / name)
    project.add(sweep(m=20))

    counts, outcome = project.made_by("protocol=fast")

    assert counts == {"emit": 1, "compile": 1, "verify": 1, "profile": 1}, outcome
    assert "5 cases: " in outcome.out
    folder = project.root / "build" / "matmul_20x16x16_f32t_f32t_f32t_default@llvm-cpu-1t"
    for word, said in (("compile", "same bytes\n"), ("run", "")):
        found = subprocess.run([folder / "repro.sh", word], cwd="/", env={}, capture_output=True, text=True)
        assert (found.returncode, found.stdout.endswith(said)) == (0, True), found.stderr
    assert project.doit("explain", f"profile:{folder.name}").code == 0


def test_spec_files_may_have_any_name(made: Project, tmp_path: Path) -> None:
    project = made.copy(tmp_path / "p")
    project.add(sweep(m=0), "ein 'Größen' \"Test\".toml")

    outcome = project.doit("list")

    assert outcome.code == 2
    assert "specs/ein 'Größen' \"Test\".toml:1, sweep[0].m" in outcome.err


def test_a_stopped_run_does_not_keep_the_next_one_waiting(copied: Project) -> None:
    """Locks die with their process: after a kill in a measurement, which holds the machine's lock."""
    process = copied.start("protocol=fast", "remeasure=yes", f"profile:{NAME}")
    assert wait_until(lambda: any("iree-benchmark-module" in words for words in processes_in(copied.root)))
    kill(process)
    began = time.monotonic()

    assert copied.doit("protocol=fast", "remeasure=yes", f"profile:{NAME}").code == 0
    assert time.monotonic() - began < 60
