"""If a tool crashes, hangs, uses too much memory or prints nonsense, only its case fails."""

from __future__ import annotations

import itertools
import os
import re
import sys
from pathlib import Path

import pytest
from support.project import NAME, Project, assert_whole, sweep
from support.tools import QUESTIONS, processes_in, toolchain, wait_until

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

NEW = "matmul_20x16x16_f32t_f32t_f32t_default@llvm-cpu-1t"
ASKED = f'case "$*" in {QUESTIONS}) exec $real "$@";; esac\n'
"""The first line of a script that replaces a tool.

With this line, the real tool answers questions such as `--version`."""

# The tool's children are in its own session and in another one (setsid); none may outlive the tool.
HANGS = ASKED + "/bin/sleep 300 & /usr/bin/setsid /bin/sleep 301 & /bin/sleep 302"
EATS = ASKED + f"exec {sys.executable} -I -S -c 'x = [bytearray(1 << 20) for _ in range(1 << 20)]'"


@pytest.fixture
def project(copied: Project) -> Project:
    """Return a project with four finished cases and the case `NEW`, which has not run."""
    copied.add(sweep(m=20))
    return copied


def tools(folder: Path, **scripts: str) -> dict[str, str]:
    return {"PYTHONPATH": toolchain(folder / "tools", **scripts)}


LIMITS = [
    ("iree_compile", "compile_limit", "compile failed: "),
    ("iree_run_module", "run_limit", "run failed: "),
    ("iree_benchmark_module", "block_limit", "benchmark failed: "),
]


@pytest.mark.parametrize(("tool", "limit", "failed"), LIMITS)
def test_a_tool_that_hangs_is_ended_at_its_limit_and_tried_again_under_a_higher_one(
    tool: str, limit: str, failed: str, project: Project, tmp_path: Path
) -> None:
    # Once `mended` exists, the script runs the real tool. Another script would have another digest, and another key.
    hangs = HANGS.replace(
        "/bin/sleep 300 &", f'if [ -e {tmp_path}/mended ]; then exec $real "$@"; fi\n/bin/sleep 300 &'
    )
    given = tools(tmp_path, **{tool: hangs})
    words = ("protocol=fast", f"profile:{NEW}")
    # Ask the real tools about this machine before the limit is 1 s: on a busy machine, they take seconds to answer.
    assert project.doit("plan", *words, **given).code == 0

    outcome = project.doit(*words, f"{limit}=1", **given)

    assert outcome.code == 1, str(outcome)
    assert f"{failed}took longer than {limit}=1; a higher {limit} tries again" in outcome.out
    assert not processes_in(project.root)
    assert not [words for words in processes_in(tmp_path) if "sleep" in words]
    row = project.rows()[-1]
    assert (row["case"], row["status"], row["median_ns"]) == (NEW, "failed", None)
    assert_whole(project)

    # The failure is valid under the same limit and under lower ones.
    assert "nothing to do" in project.doit(*words, f"{limit}=1", **given).out
    (tmp_path / "mended").touch()
    assert "nothing to do" in project.doit(*words, f"{limit}=0.5", **given).out
    assert f"failed at {limit}=1, now 60" in project.doit("plan", *words, f"{limit}=60", **given).out
    again = project.doit(*words, f"{limit}=60", **given)
    assert again.code == 0, str(again)
    assert project.rows()[-1]["status"] in ("measured", "noisy", "suspect")


@pytest.mark.parametrize("tool", ["iree_compile", "iree_benchmark_module"])
def test_a_tool_that_eats_memory_is_ended_at_the_limit_and_the_others_go_on(
    tool: str, project: Project, tmp_path: Path
) -> None:
    given = tools(tmp_path, **{tool: EATS})

    outcome = project.doit("protocol=fast", "memory_limit=256MiB", f"profile:{NEW}", **given)

    assert outcome.code == 1, str(outcome)
    assert "ran out of memory at memory_limit=256MiB; a higher memory_limit tries again" in outcome.out
    planned = project.doit("plan", "protocol=fast", "memory_limit=none", f"profile:{NEW}", **given)
    assert "failed at memory_limit=256MiB, now none" in planned.out


def test_the_real_tools_run_within_a_small_memory_limit_and_fail_with_a_reason_below_it(project: Project) -> None:
    # The limit counts memory that the tools write to, not the code that the tools map.
    outcome = project.doit("memory_limit=16MiB", f"profile:{NEW}", "protocol=fast")
    assert outcome.code == 1
    assert "compile failed: ran out of memory at memory_limit=16MiB" in outcome.out

    outcome = project.doit("memory_limit=256MiB", f"profile:{NEW}", "protocol=fast")
    assert outcome.code == 0, str(outcome)


def test_a_compile_that_failed_under_a_memory_limit_names_it_and_is_retried_above_it(project: Project) -> None:
    # Under the limits, the compiler dies by a signal, cannot map a library, or cannot start its linker.
    for limit in ("1KiB", "1MiB", "20MiB"):
        outcome = project.doit(f"memory_limit={limit}", f"compile:{NEW}")
        assert outcome.code == 1, str(outcome)
        told = rf"compile failed: .* memory_limit={limit}; a higher memory_limit tries again"
        assert re.search(told, outcome.out), str(outcome)
    assert "nothing to do" in project.doit("memory_limit=20MiB", f"compile:{NEW}").out
    outcome = project.doit("memory_limit=none", f"compile:{NEW}")
    assert outcome.code == 0, str(outcome)


def test_a_block_that_failed_under_a_memory_limit_names_it_and_is_planned_again_above_it(project: Project) -> None:
    words = ("protocol=fast", f"profile:{NEW}")
    assert project.doit(f"verify:{NEW}").code == 0
    outcome = project.doit(*words, "memory_limit=1KiB")
    assert outcome.code == 1, str(outcome)
    assert re.search(r"benchmark failed: .* memory_limit=1KiB; a higher memory_limit tries again", outcome.out), outcome
    assert "failed at memory_limit=1KiB, now" in project.doit("plan", *words).out


def test_a_failed_measurement_hides_no_complete_one(project: Project) -> None:
    (before,) = (row for row in project.rows() if row["case"] == NAME)

    outcome = project.doit("protocol=fast", "remeasure=yes", "memory_limit=1KiB", f"profile:{NAME}")

    assert outcome.code == 1, str(outcome)
    row = project.rows()[-1]
    assert (row["case"], row["median_ns"], row["blocks_ns"]) == (NAME, before["median_ns"], before["blocks_ns"])
    assert row["status"] in ("measured", "noisy")
    assert "a later measurement failed: benchmark failed: " in row["reason"]
    again = project.doit("protocol=fast", f"profile:{NAME}")
    assert (again.code, "up to date" in again.out) == (0, True), str(again)


@pytest.mark.parametrize("tool", ["iree_compile", "iree_benchmark_module"])
def test_a_tool_that_the_system_killed_is_tried_again_by_the_next_run(
    tool: str, project: Project, tmp_path: Path
) -> None:
    # The kernel sends SIGKILL to a process when memory runs out.
    ours = 'case "$*" in *benchmark*) case "$*" in *20x16xf32*) ;; *) exec $real "$@";; esac;; esac\n'
    once = f'{ours}if [ ! -e {tmp_path}/killed ]; then : > {tmp_path}/killed; kill -KILL $$; fi\nexec $real "$@"'
    given = tools(tmp_path, **{tool: ASKED + once})

    outcome = project.doit("protocol=fast", f"profile:{NEW}", **given)

    assert outcome.code == 1, str(outcome)
    assert "died by SIGKILL" in outcome.out
    again = project.doit("protocol=fast", f"profile:{NEW}", **given)
    assert again.code == 0, str(again)


RECORD = '{"name": "BM_main/real_time", "run_type": "iteration", "iterations": 3, "real_time": %s, "time_unit": "us"}'

NONSENSE = {
    "no text": "printf '\\\\377\\\\000\\\\376'",
    "cut short": "echo '{\"benchmarks\": ['",
    "another shape": "echo '{\"benchmarks\": [1, 2]}'",
    "no time": f"echo '{{\"benchmarks\": [{RECORD % 'NaN'}]}}'",
    "next to no time": f"echo '{{\"benchmarks\": [{RECORD % '1e-12'}]}}'",
    "a time that is longer than it ran": f"echo '{{\"benchmarks\": [{RECORD % '1e297'}]}}'",
    "a time below zero": f"echo '{{\"benchmarks\": [{RECORD % '-5.0'}]}}'",
    "death": "kill -ABRT $$",
    "an error": "echo 'no device' >&2; exit 3",
}


def test_a_benchmark_that_misbehaves_fails_its_case_and_no_other(project: Project, tmp_path: Path) -> None:
    (project.root / "specs/a.toml").unlink()
    sizes = dict(zip(NONSENSE, range(32, 32 + len(NONSENSE)), strict=True))
    project.add(sweep(m=[20, *sizes.values()], n=8, k=8))
    # The script recognizes cases by an operand's shape, and runs the real tool for all others.
    cases = "\n".join(f"*{size}x8xf32*) {NONSENSE[name]}; exit;;" for name, size in sizes.items())
    given = tools(tmp_path, iree_benchmark_module=f'{ASKED}case "$*" in\n{cases}\nesac\nexec $real "$@"')

    outcome = project.doit("protocol=fast", **given)

    assert outcome.code == 1, str(outcome)
    assert f"{len(NONSENSE)} failed" in outcome.out.splitlines()[-1]
    rows = {row["m"]: row for row in project.rows() if row["n"] == 8}
    assert {m for m, row in rows.items() if row["status"] == "failed"} == set(sizes.values())
    reasons = [row["reason"] for m, row in rows.items() if m != 20]
    assert all(reason.startswith("benchmark failed: ") and "\n" not in reason for reason in reasons), reasons
    assert all(row["median_ns"] is None and row["blocks_ns"] is None for m, row in rows.items() if m != 20)
    assert project.query("select count(*) from measurement where status = 'open'") == [(0,)]
    # A failure that would repeat itself is tried again only with `retry=yes`.
    assert "nothing to do" in project.doit("protocol=fast", **given).out
    assert (
        f"profile  {len(NONSENSE)} of {len(NONSENSE) + 1} to run"
        in project.doit("plan", "protocol=fast", "retry=yes", **given).out
    )


def test_the_embedded_linker_of_the_environment_does_not_reach_the_compiler(project: Project) -> None:
    # The compiler would write an empty executable with /bin/true as its linker, and exit with 0.
    outcome = project.doit("protocol=fast", f"profile:{NEW}", IREE_LLVM_EMBEDDED_LINKER_PATH="/bin/true")

    assert outcome.code == 0, str(outcome)


def test_a_compiler_library_of_the_environment_does_not_reach_the_compiler(project: Project, tmp_path: Path) -> None:
    (tmp_path / "libIREECompiler.so").write_text("another compiler")
    outcome = project.doit("verify", LD_LIBRARY_PATH=os.fspath(tmp_path))
    assert outcome.code == 0, str(outcome)
    assert f"compile {NEW}" in outcome.out


def test_an_empty_executable_is_a_failed_compile(project: Project, tmp_path: Path) -> None:
    script = 'IREE_LLVM_EMBEDDED_LINKER_PATH=/bin/true exec $real "$@"'

    outcome = project.doit("protocol=fast", f"profile:{NEW}", **tools(tmp_path, iree_compile=script))

    assert outcome.code == 1, str(outcome)
    assert "is empty" in outcome.out
    assert project.rows()[-1]["median_ns"] is None


def test_a_runtime_that_aborts_in_a_block_leaves_the_blocks_before_it(project: Project, tmp_path: Path) -> None:
    ours = 'case "$*" in *20x16xf32*) ;; *) exec $real "$@";; esac\n'
    count = f"{ours}echo x >> {tmp_path}/count; [ $(/usr/bin/wc -l < {tmp_path}/count) -le 3 ] || kill -ABRT $$"
    given = tools(tmp_path, iree_benchmark_module=f'{ASKED}{count}\nexec $real "$@"')

    outcome = project.doit("protocol=fast", f"profile:{NEW}", **given)

    assert outcome.code == 1, str(outcome)
    assert "benchmark failed: died by SIGABRT" in outcome.out
    (status, blocks), *_ = project.query(
        "select status, (select count(*) from block where measurement = id) from measurement order by id desc"
    )
    # The tool runs three times before it aborts; a block that takes much less than its planned time needs two runs.
    assert status == "failed" and 1 <= blocks <= 3
    assert project.doit("report", NAME).code == 0


def test_nothing_of_a_tool_is_left_when_the_run_is_killed(project: Project, tmp_path: Path) -> None:
    given = tools(tmp_path, iree_compile=HANGS)
    process = project.start("protocol=fast", f"profile:{NEW}", **given)
    assert wait_until(lambda: sum("sleep 30" in words for words in processes_in(project.root)) >= 3)

    os.kill(process.pid, 9)
    process.communicate(timeout=60)

    assert wait_until(lambda: not processes_in(project.root), 20), processes_in(project.root)


def test_a_number_of_calls_that_was_found_on_a_slower_machine_fails_no_case(project: Project, tmp_path: Path) -> None:
    # The script reports too little time for this number of calls, as on a faster machine.
    script = (
        f'{ASKED}for word in "$@"; do\n'
        f'case "$word" in --benchmark_min_time=*) echo "$word" >> {tmp_path}/lengths;; esac\n'
        f'case "$word" in --benchmark_min_time=*x) echo \'{{"benchmarks": [{RECORD % "1.0"}]}}\'; exit;; esac\n'
        'done\nexec $real "$@"'
    )
    outcome = project.doit("protocol=fast", f"profile:{NEW}", **tools(tmp_path, iree_benchmark_module=script))

    assert outcome.code == 0, str(outcome)
    lengths = [line.partition("=")[2] for line in (tmp_path / "lengths").read_text().splitlines()]
    assert any(length.endswith("x") for length in lengths)
    assert all(then.endswith("s") for now, then in itertools.pairwise(lengths) if now.endswith("x")), lengths
    assert lengths[-1].endswith("s")
    row = project.rows()[-1]
    assert len(row["blocks_ns"]) >= 4
    assert len(row["anchors_ns"]) == 2
