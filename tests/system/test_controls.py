"""Controls compare the installed runtime with a new runtime.

A control is a case that is measured with both runtimes. In these tests, shell scripts replace one or two tools of the
new runtime. The new runtime is then equally fast, slower, broken or wrong."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.project import Project
from support.tools import finished, toolchain

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

NAME = "matmul_16x16x16_f32t_f32t_f32t_default@llvm-cpu-1t"
NOTHING = {"emit": 0, "compile": 0, "verify": 0, "profile": 0}
SAME = 'exec "$real" "$@"'
SLOWER = """set -e
"$real" "$@" > out
awk '/"real_time":/ { split($0, part, ": "); printf "%s: %.9e,\\n", part[1], part[2] * 4; next }
     /"iterations":/ { split($0, part, ": "); printf "%s: %d,\\n", part[1], part[2] / 4; next } { print }' out"""
"""A script that replaces the benchmark tool: it reports 4 times the real time per call.

The number of calls that it reports is a quarter of the real number."""
BROKEN = '[ "$1" = --help ] && exec "$real" --help; echo no such device >&2; exit 3'


def environment(folder: Path, script: str) -> str:
    """Make a toolchain with the shell script `script` as its benchmark tool; return `iree=FOLDER`.

    The toolchain's runtime and the installed runtime have different digests, because a runtime's digest covers the
    benchmark tool."""
    toolchain(folder, iree_benchmark_module=script)
    return f"iree={folder}"


def judgements(project: Project) -> list[dict[str, Any]]:
    return [json.loads(text) for (text,) in project.query("select value from remembered where name glob 'runtimes:*'")]


def test_an_equally_fast_runtime_is_judged_unchanged_and_nothing_is_measured_again(
    made: Project, tmp_path: Path
) -> None:
    # Load may make an equal runtime look slower or faster, so one of three tries must succeed.
    for number in range(3):
        if _judged_as_fast(made.copy(tmp_path / f"project{number}"), tmp_path / f"tools{number}"):
            return
    pytest.fail("an equal runtime moved three times")


def _judged_as_fast(copied: Project, tools: Path) -> bool:
    """Let two runs compare the installed runtime with an equally fast runtime.

    Returns False if the runs judge wrongly that the speed has changed (`moved`). After any other judgement, the
    function asserts that no case is measured again, and returns True."""
    words = ("protocol=fast", f"profile:{NAME}", environment(tools, SAME))
    rows = copied.rows()
    planned = copied.doit("plan", *words)
    assert "controls 1 to measure: 1 case on local-sync would reuse another runtime's measurements" in planned.out, (
        planned
    )

    before = copied.counts()
    started = [copied.start(*words) for _ in range(2)]
    outcomes = [finished(process) for process in started]

    if judgements(copied)[0]["verdict"] == "moved":
        return False
    assert copied.counts() == before
    assert all(outcome.code == 0 for outcome in outcomes), outcomes
    if judgements(copied)[0]["verdict"] == "unknown":  # on a busy machine, all controls may be undecided
        assert "unknown whether the runtime moved" in copied.rows()[-1]["reason"]
        return True
    assert copied.rows() == rows
    assert sum("measuring 1 control with runtimes" in outcome.out for outcome in outcomes) == 1, outcomes
    for outcome in outcomes:
        assert re.search(r"runtime .* → .* on local-sync: 1 control, held \(largest change [+-]", outcome.out), outcome
    (judgement,) = judgements(copied)
    (control,) = judgement["controls"]
    assert (judgement["verdict"], control["case"], control["together"]) == ("held", NAME, True)
    assert len(control["old_ns"]) == len(control["new_ns"]) in (14, 28)
    held = f"the store has it, from another runtime: runtime {judgement['old']}"
    assert held in copied.doit("explain", *words).out

    for again in (words, words[:2], words):
        counts, outcome = copied.made_by(*again)
        assert (counts, "control" in outcome.out) == (NOTHING, False), str(outcome)
    assert "controls" not in copied.doit("plan", *words).out
    return True


def test_cases_reused_from_a_runtime_that_moved_are_measured_again_and_both_rows_kept(
    copied: Project, tmp_path: Path
) -> None:
    words = ("protocol=fast", "profile:*_16x*", environment(tmp_path / "slower", SLOWER))
    before = {row["case"]: row for row in copied.rows()}

    counts, outcome = copied.made_by(*words)

    assert counts == NOTHING | {"verify": 2, "profile": 2}, str(outcome)
    assert "runtime moved: " in outcome.out
    assert "2 of 2 cases that reused measurements of another runtime are measured again" in outcome.out
    (judgement,) = judgements(copied)
    assert (judgement["verdict"], len(judgement["controls"])) == ("moved", 2)
    after = {row["case"]: row for row in copied.rows()}
    assert all(after[case]["median_ns"] > 1.5 * before[case]["median_ns"] for case in after if "_16x" in case)

    files = copied.query("select count(*) from measurement")
    for there in ((), words[2:], ()):
        counts, outcome = copied.made_by(*words[:2], *there)
        assert (counts, "control" in outcome.out) == (NOTHING, False), str(outcome)
        newest = {row["case"]: row for row in copied.rows()}
        assert newest[NAME]["median_ns"] == (after if there else before)[NAME]["median_ns"]
    assert copied.query("select count(*) from measurement") == files

    rest = (words[0], "profile:*_24x*", words[2])
    assert "2: runtime moved: " in copied.doit("plan", *rest).out
    counts, outcome = copied.made_by(*rest)
    assert (counts, "control" in outcome.out) == (NOTHING | {"verify": 2, "profile": 2}, False), str(outcome)


def test_a_runtime_that_cannot_run_a_control_is_judged_as_moved(copied: Project, tmp_path: Path) -> None:
    words = ("protocol=fast", f"profile:{NAME}", environment(tmp_path / "broken", BROKEN))

    counts, outcome = copied.made_by(*words, code=1)

    assert counts == NOTHING | {"verify": 1, "profile": 1}
    assert re.search(r"runtime moved: .* benchmark failed: ", outcome.out), str(outcome)
    assert "1 failed" in outcome.out
    counts, outcome = copied.made_by(*words[:2])  # the other runtime's failure says nothing about this one
    assert counts == NOTHING
    assert "1 case: up to date (1 reused) in " in outcome.out


def test_controls_are_verified_before_they_are_measured(copied: Project, tmp_path: Path) -> None:
    # The old runtime's verdicts say nothing about a wrong runtime that is as fast.
    case, words = f"profile:{NAME}", ("protocol=fast",)
    toolchain(tmp_path / "bad", iree_run_module='[ "$1" = --help ] && exec "$real" --help; exit 7')
    before = copied.counts()

    wrong = copied.doit(*words, case, f"iree={tmp_path / 'bad'}")

    assert wrong.code == 1, wrong
    assert re.search(r"runtime moved: .* verification failed: .*exit code 7", wrong.out), wrong
    assert "measuring 1 control" not in wrong.out
    assert copied.rows()[-1]["status"] == "failed"
    # It is recorded for the pair of runtimes, and for the bad runtime by itself.
    judgements = copied.query(
        "select value from remembered where name glob 'runtimes:*' and value like '%exit code 7%'"
    )
    assert len(judgements) == 2 and judgements[0] == judgements[1]
    right = copied.doit(*words, case)  # the bad runtime's verdict is not valid for this one
    assert (right.code, copied.rows()[-1]["status"] in ("measured", "noisy")) == (0, True), right
    assert copied.counts()["profile"] == before["profile"]


def test_each_measured_case_is_verified_by_the_runtime_that_measures_it(copied: Project, tmp_path: Path) -> None:
    # Only one size gets wrong results, so controls of other sizes do not show the error.
    spoiling = """"$real" "$@"; code=$?
case " $* " in *" --input=24x"*) for word in "$@"; do case "$word" in --output=@*)
  printf '\\177\\177\\177\\177' | dd of="${word#--output=@}" bs=1 count=4 conv=notrunc 2>/dev/null;;
esac; done;; esac
exit $code"""
    toolchain(tmp_path / "spoiling", iree_run_module=spoiling, iree_benchmark_module=SAME)
    words = ("protocol=fast", "profile:*_16x*", "profile:*_24x*")
    measured = copied.counts()["profile"]
    count = len({row["case"] for row in copied.rows() if "_24x" in row["case"]})

    wrong = copied.doit(*words, "remeasure=yes", f"iree={tmp_path / 'spoiling'}")

    assert wrong.code == 1, wrong
    failed = [row for row in copied.rows() if row["status"] == "failed"]
    assert {row["verification"] for row in failed} == {"different"}
    assert len(failed) == count
    assert "within bound" not in "".join(line for line in wrong.out.splitlines() if "_24x" in line)
    assert copied.counts()["profile"] > measured
    for _ in range(2):  # each runtime keeps its own verdicts
        for there, code in (((), 0), ((f"iree={tmp_path / 'spoiling'}",), 1)):
            before = copied.counts()["verify"]
            outcome = copied.doit("protocol=fast", "verify:*_24x*", *there)
            assert (outcome.code, copied.counts()["verify"]) == (code, before), outcome


def test_the_recorded_blocks_stand_for_a_runtime_that_is_no_longer_available(copied: Project, tmp_path: Path) -> None:
    words = ("protocol=fast", f"profile:{NAME}")
    copied.made_by(*words, "remeasure=yes", environment(tmp_path / "same", SAME))
    shutil.rmtree(tmp_path / "same")
    # Read before the next run, which adds a row if noise makes its judgement `moved`.
    left = copied.rows()[-1]["blocks_ns"]

    outcome = copied.doit(*words)

    assert "the old one is not available: against the recorded blocks" in outcome.out, str(outcome)
    (judgement,) = judgements(copied)
    (control,) = judgement["controls"]
    assert (control["together"], len(control["old_ns"])) == (False, len(left))
