"""Everything a user types, through `doit`, with the real compiler and runtime."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from real import DODO, Outcome, Project, environment, sweep, toolchain

from dispatchflow.verdict import compare_bounded

pytest_plugins = ["real"]
pytestmark = pytest.mark.iree

NAME = "matmul_16x16x16_f32t_f32t_f32t_default@llvm-cpu-1t"
TILED = "matmul_16x16x16_f32t_f32t_f32t_data_tiling@llvm-cpu-1t"
NOTHING = {"emit": 0, "compile": 0, "verify": 0, "profile": 0}


def made(**counts: int) -> dict[str, int]:
    return NOTHING | counts


# --- the first run, and the second


def test_the_first_run_makes_everything_and_says_so(first_run: tuple[Project, Outcome]) -> None:
    _, outcome = first_run
    lines = outcome.out.splitlines()
    header = next(line for line in lines if line.startswith("case "))

    assert outcome.code == 0, outcome
    assert header.split() == ["case", "verification", "median", "±", "GFLOP/s", "GB/s", "peak", "applied", "state"]
    table = lines[lines.index(header) + 1 :][:4]
    assert all("within bound" in line and line.endswith("measured now") for line in table)
    assert sum(line.startswith(NAME) for line in table) == 1
    assert lines[-1].startswith(
        "4 cases: 2 emitted, 4 compiled, 4 verified, 4 measured; 0 reused, 0 failed, 0 skipped; "
    )
    assert outcome.err == ""


def test_the_first_run_leaves_one_row_a_case_with_everything_in_it(made: Project) -> None:
    rows = {row["case"]: row for row in made.rows()}

    assert len(rows) == len(made.rows()) == 4
    row = rows[NAME]
    assert (row["operation"], row["m"], row["n"], row["k"]) == ("matmul", 16, 16, 16)
    assert (row["flops"], row["traffic_bytes"]) == (2 * 16**3, 3 * 16 * 16 * 4)
    assert row["status"] in ("measured", "noisy")
    assert row["verification"] == "within bound"
    assert 0 <= row["score"] <= 1
    assert 6 <= len(row["blocks_ns"]) <= 8
    assert min(row["blocks_ns"]) == row["min_ns"] <= row["ci_low_ns"] <= row["median_ns"] <= row["ci_high_ns"]
    assert row["flops_per_s"] == pytest.approx(row["flops"] / row["median_ns"] * 1e9)
    assert row["bytes_per_s"] == pytest.approx(row["traffic_bytes"] / row["median_ns"] * 1e9)
    assert row["applied_configuration"]
    assert row["requested_configuration"] is None
    assert rows[TILED]["requested_configuration"] == "--iree-opt-data-tiling"
    for several in rows.values():
        assert (
            len(several["dispatches"])
            == len(several["dispatch_configurations"])
            == (3 if several["tuning"] == "data_tiling" else 1)
        )
        assert " | ".join(several["dispatch_configurations"]) == several["applied_configuration"]
        assert 0 < sum(several["dispatch_medians_ns"]) < 2 * several["dispatch_ns"]
    assert row["tags"] == ["small"]
    assert row["protocol"].startswith("fast-")
    assert row["compile_s"] > 0
    assert row["code_bytes"] > 0
    assert row["compiler_peak_bytes"] > 10**6
    assert row["threads"] == 1


def test_the_second_run_makes_nothing_and_touches_nothing(copied: Project) -> None:
    files, parts, rows = copied.files(), copied.parts(), copied.rows()

    counts, outcome = copied.made_by("protocol=fast", "profile:matmul_*")

    assert counts == NOTHING
    assert "4 cases: nothing made; 4 reused, 0 failed, 0 skipped; " in outcome.out
    assert outcome.out.count("reused\n") == 4
    assert copied.files() == files
    assert (copied.parts(), copied.rows()) == (parts, rows)


def test_the_stages_before_profile_need_no_protocol_and_are_made_too(copied: Project) -> None:
    for stage in ("emit", "compile", "verify", f"verify:{NAME}"):
        counts, outcome = copied.made_by(stage)
        assert counts == NOTHING
        assert "nothing made" in outcome.out


def test_a_new_case_alone_is_made(copied: Project) -> None:
    before = {row["case"]: row for row in copied.rows()}
    copied.add(sweep(m=[16, 20]))

    counts, outcome = copied.made_by("protocol=fast")

    assert counts == made(emit=1, compile=1, verify=1, profile=1)
    assert "5 cases: 1 emitted, 1 compiled, 1 verified, 1 measured; 4 reused, 0 failed, 0 skipped" in outcome.out
    after = {row["case"]: row for row in copied.rows()}
    assert set(after) - set(before) == {"matmul_20x16x16_f32t_f32t_f32t_default@llvm-cpu-1t"}
    assert all(after[name] == row for name, row in before.items())


def test_a_case_taken_away_and_brought_back_is_not_made_again(copied: Project) -> None:
    spec = (copied.root / "specs/a.toml").read_text()
    (copied.root / "specs/a.toml").write_text(sweep(m=[16]))
    counts, outcome = copied.made_by("protocol=fast")
    assert (counts, "1 case: nothing made" in outcome.out) == (NOTHING, True)

    (copied.root / "specs/a.toml").write_text(spec)
    counts, outcome = copied.made_by("protocol=fast")

    assert (counts, "4 cases: nothing made" in outcome.out) == (NOTHING, True)


def test_equal_code_is_verified_and_measured_once(copied: Project) -> None:
    """Distribution tiles larger than the whole matrix: two requests, one code."""
    names = [f"double_tiling_{tile}x{tile}_4x16x1" for tile in (64, 128)]
    (copied.root / "specs/a.toml").write_text(sweep(tuning=names))

    counts, _ = copied.made_by("protocol=fast")

    assert counts == made(emit=2, compile=2, verify=1, profile=1)
    rows = {row["tuning"]: row for row in copied.rows() if row["tuning"] in names}
    assert list(rows) == names
    assert len({row["code_digest"] for row in rows.values()}) == 1
    assert len({row["measurement_key"] for row in rows.values()}) == 1
    assert len({tuple(row["blocks_ns"]) for row in rows.values()}) == 1


def test_a_tuning_by_name_and_by_parameters_is_one_case(copied: Project) -> None:
    parameters = {"family": "double_tiling", "distribution": [64, 64], "vector": [4, 16], "reduction": 1}
    (copied.root / "specs/a.toml").write_text(sweep(tuning=["double_tiling_64x64_4x16x1", parameters]))

    outcome = copied.doit("list", "--all", "profile")

    assert outcome.out.splitlines() == ["profile:matmul_16x16x16_f32t_f32t_f32t_double_tiling_64x64_4x16x1@llvm-cpu-1t"]


def test_numbers_of_threads_share_a_compile(copied: Project) -> None:
    (copied.root / "specs/a.toml").write_text(sweep(threads=[1, "all"], m=28))

    counts, outcome = copied.made_by("verify")

    assert (counts["emit"], counts["compile"]) == (1, 1)
    assert "2 cases: 1 emitted, 1 compiled, " in outcome.out
    keys = {key for (key,) in copied.query("select key from latest where stage = 'compile' and name like '%28x16x16%'")}
    assert len(keys) == 1


# --- looking


def test_list_shows_stages_and_commands(made: Project) -> None:
    outcome = made.doit("list")

    words = [line.split()[0] for line in outcome.out.splitlines() if line]
    assert words[:4] == ["emit", "compile", "verify", "profile"]
    assert {"list", "plan", "explain", "report", "best"} <= set(words)
    assert "4 cases; for example: doit 'profile:matmul_*'" in outcome.out


def test_list_all_shows_every_case(made: Project) -> None:
    outcome = made.doit("list", "--all", "profile")

    assert outcome.code == 0
    assert sorted(outcome.out.splitlines()) == sorted(f"profile:{row['case']}" for row in made.rows())


@pytest.mark.parametrize(
    ("pattern", "count"), [("profile:matmul_16*", 2), ("compile:*data_tiling*", 2), ("verify:*_[23]4x*", 2), ("*", 16)]
)
def test_list_takes_patterns(pattern: str, count: int, made: Project) -> None:
    outcome = made.doit("list", "--all", pattern)

    assert (outcome.code, len(outcome.out.splitlines())) == (0, count), outcome


def test_list_says_what_is_made_and_what_is_not(copied: Project) -> None:
    copied.add(sweep(m=20))

    lines = copied.doit("list", "--all", "-s", "protocol=fast", "profile").out.splitlines()

    assert sum(line.endswith("  made") for line in lines) == 4
    assert [line for line in lines if "to make: emit, compile, verify, profile" in line] == [
        "profile:matmul_20x16x16_f32t_f32t_f32t_default@llvm-cpu-1t  to make: emit, compile, verify, profile"
    ]


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p", sweep(m=list(range(1, 3001))))
    script = f"{sys.executable} -m doit list --all profile 2>stderr | head -1"

    found = subprocess.run(["sh", "-c", script], cwd=project.root, env=environment({}), capture_output=True, text=True)

    assert found.stdout == "profile:matmul_1x16x16_f32t_f32t_f32t_default@llvm-cpu-1t\n"
    assert (project.root / "stderr").read_text() == ""


def test_plan_tells_what_a_run_would_make_and_makes_nothing(copied: Project) -> None:
    copied.add(sweep(m=20))
    files = copied.files()

    counts, outcome = copied.made_by("plan", "protocol=fast")

    assert counts == NOTHING
    assert copied.files() == files
    for stage, of in (("emit", 5), ("compile", 5), ("verify", 5), ("profile", 5)):
        assert f"{stage:<8} 1 to make of {of}\n" in outcome.out
    assert "never compiled with these ingredients" in outcome.out


def test_plan_in_a_new_project_makes_nothing(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p", sweep())

    outcome = project.doit("plan")

    assert outcome.code == 0, outcome
    assert "compile  1 to make of 1" in outcome.out
    assert project.counts() == NOTHING
    assert not list((project.store / "objects").iterdir())
    assert not (project.root / "build").exists()


def test_explain_says_why_nothing_would_run(copied: Project) -> None:
    outcome = copied.doit("explain", "protocol=fast", f"profile:{NAME}")

    assert outcome.code == 0
    for stage in ("emit", "compile", "verify", "profile"):
        assert f"\n{stage}: made: the store has it\n" in outcome.out
    assert "CHANGED" not in outcome.out
    assert "module.mlir" in outcome.out
    assert re.search(r"\n  main_dispatch_0_matmul_16x16x16_f32 +[\d.]+ [nµm]?s  DoubleTilingExpert ", outcome.out)


def test_a_changed_environment_is_explained_and_compiles_again_but_measures_nothing(copied: Project) -> None:
    """Early cutoff: the same code comes out."""
    (copied.root / "libraries").mkdir()
    changed = {"LD_LIBRARY_PATH": str(copied.root / "libraries")}

    explained = copied.doit("explain", "protocol=fast", f"profile:{NAME}", **changed).out

    assert "\nemit: made: " in explained
    compile_part = explained.partition("\ncompile: ")[2].partition("\nverify: ")[0]
    assert compile_part.startswith("would run: ")
    assert f"LD_LIBRARY_PATH={changed['LD_LIBRARY_PATH']}" in compile_part
    assert compile_part.count("CHANGED") == 1
    assert "\nverify: would run: depends on the code that compile makes" in explained

    counts, outcome = copied.made_by("protocol=fast", **changed)

    assert counts == made(compile=4)
    assert "4 cases: 4 compiled; " in outcome.out
    assert copied.made_by("protocol=fast")[0] == NOTHING


def test_another_protocol_is_explained(made: Project) -> None:
    outcome = made.doit("explain", "protocol=std", f"profile:{NAME}")

    assert "\nverify: made: " in outcome.out
    profile = outcome.out.partition("\nprofile: ")[2]
    assert profile.startswith("would run: this code was never measured on this device under std-")
    assert "CHANGED since the last record of this name: was fast-" in profile


# --- what is wrong, and the exit codes

REFUSED_INPUT = {
    "a misspelt variable": (["protcol=fast"], 2, "Did you mean 'protocol'?"),
    "a value that is not allowed": (["protocol=quick"], 2, "fast, std, thorough"),
    "a report's variable": (["sort=case"], 2, "means nothing to this command"),
    "an unknown task": (["profil"], 2, "Did you mean 'profile'?"),
    "an unknown option": (["profile", "--colour"], 2, "colour"),
    "an unknown option before all": (["--colour"], 2, "colour"),
    "a range that goes the other way": (["m=64:8:8", "n=8", "k=8"], 2, "never reaches 8"),
    "a size of zero": (["m=0", "n=8", "k=8"], 2, "size 0"),
    "a size that is no number": (["m=big", "n=8", "k=8"], 2, "'big'"),
    "a missing dim": (["m=8", "n=8"], 2, "k"),
    "an unknown type": (["m=8", "n=8", "k=8", "dtype=f33"], 2, "no element types 'f33'"),
    "an unknown tuning": (["tuning=defualt"], 2, "Did you mean 'default'?"),
    "a billion cases": (["m=1:1000", "n=1:1000", "k=1:1000"], 2, "1,000,000,000 cases"),
    "an empty word": ([""], 2, "an empty word"),
    "a spec that is not there": (["specs=nowhere"], 2, "nowhere"),
    "a pattern without a match": (["profile:conv*"], 3, "nothing matches 'profile:conv*'"),
    "a pattern of tasks without a match": (["prof_*"], 3, "nothing matches 'prof_*'"),
    "a name without a match": ([f"profile:{NAME}x"], 3, f"Did you mean '{NAME}'?"),
    "tags that nothing has": (["tags=large"], 3, "no sweep has this tag"),
}


STOCK = pytest.mark.xfail(strict=True, reason="stock doit reads the words before it loads dodo.py")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(wrong, marks=[STOCK] if wrong in ("an unknown option before all", "an empty word") else [])
        for wrong in REFUSED_INPUT
    ],
)
def test_wrong_input_is_refused_and_nothing_is_made(wrong: str, made: Project) -> None:
    words, code, said = REFUSED_INPUT[wrong]
    before = made.files()

    outcome = made.doit(*words)

    assert (outcome.code, outcome.out) == (code, ""), outcome
    assert said in outcome.err
    assert outcome.err.startswith("doit: ")
    assert made.files() == before


SKIPPED = "matmul_8x8x8_f16t_f16t_f16t_default@vmvx-1t"


@pytest.mark.parametrize("word", ["", f"verify:{SKIPPED}", "list --all emit", f"explain profile:{SKIPPED}", "plan"])
def test_what_is_all_skipped_is_no_failure_and_says_why(word: str, made: Project) -> None:
    axes = ["m=8", "n=8", "k=8", "dtype=f16", "target=vmvx", "threads=1"]

    outcome = made.doit(*axes, *word.split())

    assert (outcome.code, outcome.err) == (0, ""), outcome
    assert "vmvx has no f16 arithmetic" in outcome.out
    assert SKIPPED in outcome.out or word == "plan"


REFUSED_SPECS = {
    "no TOML": ("[[sweep", "specs/a.toml"),
    "an unknown word": (sweep(tunning="default"), "Did you mean 'tuning'?"),
    "a wrong type": (sweep(m=1.5), "specs/a.toml:1, sweep[0]"),
    "an unknown operation": (sweep(operation="matmull"), "Did you mean 'matmul'?"),
    "a half tuning": (sweep(tuning={"family": "double_tiling", "vector": [4, 4]}), "'distribution' is missing"),
}


@pytest.mark.parametrize("wrong", REFUSED_SPECS)
def test_a_wrong_spec_is_refused_with_its_place(wrong: str, tmp_path: Path) -> None:
    text, said = REFUSED_SPECS[wrong]
    project = Project.make(tmp_path / "p", text)

    outcome = project.doit("list")

    assert outcome.code == 2
    assert said in outcome.err
    assert "specs/a.toml" in outcome.err


# The compiler refuses a module with a dim of 13, and else is the real one.
PICKY = 'input=$(/bin/cat); case "$input" in *tensor\\<13x*) echo "x.mlir:1:1: error: unlucky" >&2; exit 1;; esac\n' \
    'echo "$input" | $real "$@"'  # fmt: skip


def test_a_failed_case_is_exit_code_1_and_does_not_stop_the_others(copied: Project, tmp_path: Path) -> None:
    tools = {"PYTHONPATH": toolchain(tmp_path / "tools", iree_compile=PICKY)}
    (copied.root / "specs/a.toml").write_text(sweep(m=[13, 16]))

    counts, outcome = copied.made_by("protocol=fast", code=1, **tools)

    assert counts == made(emit=1, compile=2)  # the script is another compiler, and makes the same code as the real one
    assert "compile failed: unlucky" in outcome.out
    assert "1 failed" in outcome.out.splitlines()[-1]
    (row,) = [row for row in copied.rows() if row["m"] == 13]
    assert (row["status"], row["reason"], row["median_ns"]) == ("failed", "compile failed: unlucky", None)
    failed = "matmul_13x16x16_f32t_f32t_f32t_default@llvm-cpu-1t"
    assert "unlucky" in (copied.root / "build" / failed / "compile.log").read_text()

    # A failure that would repeat itself is not tried again, and still is one.
    parts = copied.parts()
    counts, again = copied.made_by("protocol=fast", code=1, **tools)
    assert counts == NOTHING
    assert "2 cases: nothing made; " in again.out
    assert "compile failed: unlucky" in again.out
    assert copied.parts() == parts

    began = copied.query("select at from record where not ok")
    counts, retried = copied.made_by("protocol=fast", "retry=yes", code=1, **tools)
    assert f"compile {failed} FAILED" in retried.out
    assert copied.query("select at from record where not ok") > began

    # Selected alone, what goes well is exit code 0.
    assert copied.doit("protocol=fast", f"profile:{NAME}", **tools).code == 0


def test_a_size_beyond_every_machine_is_a_failed_case_or_a_skip_and_not_a_crash(copied: Project) -> None:
    size = 2**31 - 1
    outcome = copied.doit("protocol=fast", f"m={size}", f"n={size}", f"k={size}", "threads=1", "profile:*")

    assert outcome.code in (0, 1, 3)
    assert copied.doit("protocol=fast", "profile:*").code == 0


# A runtime whose results are all wrong; it measures as the real one does.
WRONG = '$real "$@"; for w in "$@"; do case $w in --output=@*) /usr/bin/head -c 1024 /dev/zero > ${w#--output=@};; esac; done'


def test_a_wrong_result_is_told_not_measured_and_measured_with_verify_warn(copied: Project, tmp_path: Path) -> None:
    tools = {"PYTHONPATH": toolchain(tmp_path / "tools", iree_run_module=WRONG)}
    words = ("protocol=fast", "m=16", "n=16", "k=16", "dtype=i8", "threads=1")
    name = "matmul_16x16x16_i8t_i8t_i32t_default@llvm-cpu-1t"

    counts, outcome = copied.made_by(*words, code=1, **tools)

    assert counts == made(emit=1, compile=1, verify=1)
    assert "different" in outcome.out
    assert "elements of the exact inputs are wrong; worst at [" in outcome.out
    row = copied.rows()[-1]
    assert (row["case"], row["status"], row["verification"], row["median_ns"]) == (name, "failed", "different", None)
    assert row["worst_got"] == "0" != row["worst_expected"]
    folder = copied.root / "build" / name
    assert (folder / "got_exact.bin").read_bytes() == bytes(1024) != (folder / "expected_exact.bin").read_bytes()

    counts, outcome = copied.made_by(*words, "verify=warn", code=1, **tools)

    assert counts == made(profile=1)
    row = copied.rows()[-1]
    assert (row["verification"], row["median_ns"] > 0) == ("different", True)
    assert name not in copied.doit("best", "columns=case").out


def test_verify_off_measures_what_it_does_not_verify(copied: Project) -> None:
    words = ("protocol=fast", "m=20", "n=16", "k=16", "threads=1")

    counts, outcome = copied.made_by(*words, "verify=off")

    assert counts == made(emit=1, compile=1, profile=1)
    assert "not verified" in outcome.out
    (row,) = [row for row in copied.rows() if row["m"] == 20]
    assert (row["verification"], row["status"] in ("measured", "noisy", "suspect")) == ("not verified", True)
    assert "matmul_20x" not in copied.doit("best").out

    # Verified later, it is not measured again, and the newest row says so.
    counts, outcome = copied.made_by(*words)
    assert counts == made(verify=1)
    assert [row["verification"] for row in copied.rows() if row["m"] == 20] == ["not verified", "within bound"]

    # What is known is said, whoever asks for no verification.
    counts, outcome = copied.made_by(*words, "verify=off")
    assert counts == made()
    assert "within bound" in outcome.out


def test_remeasure_adds_rows_and_takes_none_away(copied: Project) -> None:
    before, parts = copied.rows(), copied.parts()

    counts, outcome = copied.made_by("protocol=fast", "remeasure=yes", f"profile:{NAME}")

    assert counts == made(profile=1)
    assert "1 measured; " in outcome.out
    after = copied.rows()
    assert after[: len(before)] == before
    assert [row["case"] for row in after[len(before) :]] == [NAME]
    assert len(copied.parts() - parts) == 1
    assert parts < copied.parts()

    newest = [json.loads(line) for line in copied.doit("report", "format=jsonl", NAME).out.splitlines()]
    history = [json.loads(line) for line in copied.doit("report", "format=jsonl", "history=yes", NAME).out.splitlines()]
    assert (len(newest), len(history)) == (1, 2)
    assert newest[0] == history[1] != history[0]


def test_remeasure_by_age_leaves_what_is_younger(made: Project) -> None:
    outcome = made.doit("plan", "protocol=fast", "remeasure=7")

    assert "profile  0 to make of 4" in outcome.out


# --- report and best


def cells(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_report_sorts_limits_and_chooses(made: Project) -> None:
    found = cells(made.doit("report", "sort=-median_ns", "columns=case,median_ns", "format=csv").out)

    assert list(found[0]) == ["case", "median_ns"]
    medians = [float(row["median_ns"]) for row in found]
    assert len(medians) == 4
    assert medians == sorted(medians, reverse=True)

    fastest = cells(made.doit("report", "sort=median_ns", "top=1", "columns=median_ns", "format=csv").out)
    assert [float(row["median_ns"]) for row in fastest] == [min(medians)]
    assert len(cells(made.doit("report", "format=csv", "*_16x16x16_*").out)) == 2
    assert len(cells(made.doit("report", "format=csv", "tags=small").out)) == 4
    assert made.doit("report", "tags=large").code == 3
    assert made.doit("report", "*_99x*").code == 3
    assert made.doit("report", "columns=time").code == 2
    assert made.doit("report", "format=xml").code == 2
    assert made.doit("report", "protocol=fast").code == 2


def test_report_formats_say_the_same(made: Project, tmp_path: Path) -> None:
    rows = {row["case"]: row for row in made.rows()}

    lines = [json.loads(line) for line in made.doit("report", "format=jsonl").out.splitlines()]
    assert {line["case"]: line["blocks_ns"] for line in lines} == {name: row["blocks_ns"] for name, row in rows.items()}
    assert set(lines[0]) == {*rows[NAME], "percent_of_best_provider"}

    table = cells(made.doit("report", "format=csv").out)
    assert {row["case"]: float(row["median_ns"]) for row in table} == {n: row["median_ns"] for n, row in rows.items()}
    assert json.loads(table[0]["blocks_ns"]) == rows[table[0]["case"]]["blocks_ns"]

    markdown = made.doit("report", "format=markdown", "columns=case,status").out.splitlines()
    assert markdown[:2] == ["| case | status |", "| --- | --- |"]
    assert len(markdown) == 6

    text = made.doit("report").out
    assert all(name in text for name in rows)

    out = tmp_path / "rows.csv"
    printed = made.doit("report", "format=csv", f"out={out}")
    assert (printed.code, printed.out) == (0, "")
    assert cells(out.read_text()) == table


def test_report_needs_nothing_but_parquet(copied: Project) -> None:
    wanted = copied.doit("report", "format=csv").out
    for path in copied.store.glob("records.sqlite*"):
        path.unlink()

    assert copied.doit("report", "format=csv").out == wanted
    assert not (copied.store / "records.sqlite").exists()


def with_store_read_only(project: Project, words: str) -> subprocess.CompletedProcess[str]:
    """`doit WORDS` while nothing in the store can be written."""
    script, paths = f"{sys.executable} -m doit {words}", (project.store, *project.store.rglob("*"))
    if os.geteuid() == 0:  # to whom modes mean nothing: a read-only mount in a name space of our own
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
            pytest.skip("this root may not make a read-only mount")
        script = f'mount --bind "$PWD/.dispatchflow" "$PWD/.dispatchflow" && mount -o remount,ro,bind "$PWD/.dispatchflow" && {script}'
        argv = ["unshare", "--mount", "sh", "-c", script]
    else:
        argv = ["sh", "-c", script]
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)
    found = subprocess.run(argv, cwd=project.root, env=environment({}), capture_output=True, text=True)
    if os.geteuid():
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)
    return found


def test_report_reads_a_store_that_cannot_be_written(copied: Project) -> None:
    wanted = copied.doit("report", "format=csv").out

    found = with_store_read_only(copied, "report format=csv")

    assert (found.returncode, found.stdout, found.stderr) == (0, wanted, "")


def test_a_run_on_a_store_that_cannot_be_written_says_so(copied: Project) -> None:
    found = with_store_read_only(copied, "protocol=fast m=20 n=16 k=16")

    assert found.returncode == 2
    assert "the store cannot be written" in found.stderr
    assert "DISPATCHFLOW_STORE" in found.stderr


def test_a_store_elsewhere(made: Project, copied: Project, tmp_path: Path) -> None:
    (copied.store).rename(tmp_path / "elsewhere")

    counts = copied.doit("protocol=fast", DISPATCHFLOW_STORE=str(tmp_path / "elsewhere"))

    assert "nothing made" in counts.out
    assert not copied.store.exists()


def test_report_without_rows_says_what_to_do(tmp_path: Path) -> None:
    outcome = Project.make(tmp_path / "p", sweep()).doit("report")

    assert outcome.code == 3
    assert "Run doit 'profile:*' first." in outcome.err


def test_best_is_the_fastest_right_one_with_its_speedup(made: Project) -> None:
    rows = {row["case"]: row for row in made.rows()}
    right = [row for row in rows.values() if row["status"] in ("measured", "noisy")]

    found = [json.loads(line) for line in made.doit("best", "format=jsonl", "columns=case,speedup").out.splitlines()]

    assert {rows[line["case"]]["shape"] for line in found} == {row["shape"] for row in right}
    for line in found:
        peers = [row for row in right if row["shape"] == rows[line["case"]]["shape"]]
        assert rows[line["case"]]["median_ns"] == min(row["median_ns"] for row in peers)
        default = [row["median_ns"] for row in peers if row["tuning"] == "default"]
        if default:
            assert line["speedup"] == pytest.approx(default[0] / rows[line["case"]]["median_ns"])
            assert line["speedup"] >= 1


# --- the user's own tasks, sweeps on the command line, the readable view

OWN_TASKS = '''
def task_above():
    """stands above main()"""
    return {"actions": ["echo above >> order"]}

from dispatchflow import main

main()

def task_below():
    """stands below main()"""
    def look():
        from pathlib import Path
        with Path("order").open("a") as out:
            out.write(f"below after {len(list(Path('build').glob('*/module.vmfb')))} modules\\n")
    return {"actions": [look], "task_dep": ["profile:*_20x*"]}

def task_wrong():
    """fails"""
    return {"actions": ["false"]}
'''


def test_own_tasks_stand_beside_ours(copied: Project) -> None:
    (copied.root / "dodo.py").write_text(OWN_TASKS)
    copied.add(sweep(m=20))

    listed = copied.doit("list").out
    assert "stands above main()" in listed
    assert "stands below main()" in listed

    assert copied.doit("above").code == 0
    assert (copied.root / "order").read_text() == "above\n"

    counts, _ = copied.made_by("protocol=fast", "below")
    assert counts == made(emit=1, compile=1, verify=1, profile=1)
    assert (copied.root / "order").read_text().startswith("above\nbelow after ")
    assert any(row["m"] == 20 for row in copied.rows())

    # Named together with cases; and our cases alone run no task of the user's.
    counts, _ = copied.made_by("protocol=fast", "above", f"profile:{NAME}")
    assert (counts, (copied.root / "order").read_text().count("above\n")) == (NOTHING, 2)
    copied.made_by("protocol=fast")
    assert (copied.root / "order").read_text().count("above\n") == 2


def test_an_own_task_that_fails_is_exit_code_1(copied: Project) -> None:
    (copied.root / "dodo.py").write_text(OWN_TASKS)

    assert copied.doit("wrong").code == 1
    outcome = copied.doit("protocol=fast", "wrong", f"profile:{NAME}")
    assert outcome.code == 1
    assert NAME in outcome.out


def test_a_dodo_file_in_another_directory(made: Project, tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "doit", "-f", str(made.root / "dodo.py"), "list", "--all", "profile"],
        cwd=tmp_path, env=environment({}), capture_output=True, text=True,
    )  # fmt: skip

    assert found.returncode == 0, found.stderr
    assert len(found.stdout.splitlines()) == 4


def test_a_sweep_from_the_command_line(copied: Project) -> None:
    words = ("m=8:40:16", "n=8", "k=8", "dtype=f32;i8", "threads=1")

    listed = copied.doit("list", "--all", *words, "verify").out.splitlines()

    assert listed == [
        f"verify:matmul_{m}x8x8_{types}_default@llvm-cpu-1t"
        for m in (8, 24, 40)
        for types in ("f32t_f32t_f32t", "i8t_i8t_i32t")
    ]
    counts, outcome = copied.made_by(*words, "verify")
    assert counts == made(emit=6, compile=6, verify=6)
    assert "6 cases: 6 emitted, 6 compiled, 6 verified; 0 reused, 0 failed, 0 skipped" in outcome.out


def test_a_range_that_no_step_ends_is_noted(made: Project) -> None:
    outcome = made.doit("plan", "m=8:40:24", "n=8", "k=8", "threads=1")

    assert "note: command line.m: '8:40:24' ends at 32; no step reaches 40" in outcome.out


def test_a_skip_is_shown_with_its_reason(made: Project) -> None:
    outcome = made.doit("plan", "target=vmvx", "tuning=double_tiling_64x64_4x16x1")

    assert outcome.code in (0, 3)
    assert "double tiling is a configuration of llvm-cpu" in outcome.out + outcome.err


def repro(project: Project, word: str) -> subprocess.CompletedProcess[str]:
    script = project.root / "build" / NAME / "repro.sh"
    return subprocess.run([script, word], cwd="/", env={}, capture_output=True, text=True, timeout=120)


def test_the_view_shows_every_artifact(made: Project) -> None:
    folder = made.root / "build" / NAME
    names = {path.name for path in folder.iterdir()}

    assert {"module.mlir", "module.vmfb", "configurations.mlir", "repro.sh"} <= names
    assert {"exact_0.bin", "exact_1.bin", "random_0.bin", "random_1.bin", "expected_exact.bin"} <= names
    for path in folder.iterdir():
        assert path.resolve(strict=True).stat().st_size > 0
        assert path.suffix in (".sh", ".txt") or (path.is_symlink() and made.store in path.resolve().parents)
    assert "linalg.matmul" in (folder / "module.mlir").read_text()
    assert {path.name for path in (made.root / "build/results").iterdir()} == made.parts()


def test_repro_compiles_the_same_bytes(made: Project) -> None:
    found = repro(made, "compile")

    assert (found.returncode, found.stdout) == (0, "same bytes\n"), found.stderr


def test_repro_runs_to_the_same_result(copied: Project) -> None:
    found = repro(copied, "run")

    assert found.returncode == 0, found.stderr
    folder = copied.root / "build" / NAME
    got, (reference, tolerance) = (
        np.fromfile(folder / "again.bin", np.float32),
        (np.fromfile(folder / f"expected_{name}.bin", np.float64) for name in ("reference", "tolerance")),
    )
    assert compare_bounded(got, reference, tolerance).passed


def test_repro_benchmarks(made: Project) -> None:
    found = repro(made, "benchmark")

    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["benchmarks"]


def test_repro_says_what_it_takes(made: Project) -> None:
    found = repro(made, "")

    assert found.returncode == 2
    assert "compile | run | benchmark" in found.stderr


def test_a_directory_without_specs_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "dodo.py").write_text(DODO)

    outcome = Project(tmp_path).doit("list")

    assert outcome.code == 2
    assert "there are no specs here" in outcome.err
    assert "doit m=512 n=512 k=512" in outcome.err


def test_an_idle_run_is_quick(made: Project) -> None:
    """Far above what it takes: only a run that starts a compiler or a benchmark takes so long."""
    began = time.monotonic()

    assert "nothing made" in made.doit("protocol=fast").out
    assert time.monotonic() - began < 20
