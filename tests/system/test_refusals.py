"""Wrong input is refused and failures are reported, each with its exit code."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import pytest
from support.project import DODO, NAME, NOTHING, Project, only, sweep
from support.tools import toolchain

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

REFUSED_INPUT = {
    "a misspelt variable": (["protcol=fast"], 2, "Did you mean 'protocol'?"),
    "a value that is not allowed": (["protocol=quick"], 2, "fast, std, thorough"),
    "a report's variable": (["sort=case"], 2, "means nothing to this command"),
    "an unknown task": (["profil"], 2, "Did you mean 'profile'?"),
    "an unknown option": (["profile", "--colour"], 2, "colour"),
    "an unknown option before all": (["--colour"], 2, "colour"),
    "no jobs at once": (["-n", "-1", "m=9", "n=9", "k=9", "verify"], 2, "1 … 1024"),
    "a range that goes the other way": (["m=64:8:8", "n=8", "k=8"], 2, "never reaches 8"),
    "a size in full-width digits": (["m=６４", "n=8", "k=8"], 2, "not a size"),
    "a size with a leading zero": (["m=007", "n=8", "k=8"], 2, "not a size"),
    "two commas between sizes": (["m=4,,5", "n=8", "k=8"], 2, "not a size"),
    "two commas between words": (["tuning=default,,data_tiling"], 2, "'tuning' has an empty value"),
    "a comma at the end": (["operation=matmul,", "shape=tiny"], 2, "separated by commas"),
    "more memory than can be counted": (["memory_limit=99999999999999999TiB"], 2, "memory_limit cannot be"),
    "a dim that one of the operations does not have": (
        ["operation=matmul,softmax", "m=8", "n=8", "k=8"],
        2,
        "softmax has no dim 'k'",
    ),
    "a CPU that the compiler does not know": (
        ["m=8", "n=8", "k=8", "target=llvm-cpu-pentium9"],
        2,
        "target= on the command line",
    ),
    "a word with a terminal's escape sequence": (["tuning=\x1b[31mx"], 2, r"unknown tuning '\x1b[31mx'"),
    "a size of zero": (["m=0", "n=8", "k=8"], 2, "size 0"),
    "a size that is no number": (["m=big", "n=8", "k=8"], 2, "'big'"),
    "a missing dim": (["m=8", "n=8"], 2, "k"),
    "an unknown type": (["m=8", "n=8", "k=8", "dtype=f33"], 2, "no element type 'f33'"),
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

    assert (outcome.code, outcome.out) == (code, ""), str(outcome)
    assert said in outcome.err
    assert outcome.err.startswith("doit: ")
    assert made.files() == before


TILES = "double_tiling_64x64_4x16x4"
SKIPPED = f"matmul_8x8x8_f32t_f32t_f32t_{TILES}@vmvx-1t"


@pytest.mark.parametrize("word", ["", f"verify:{SKIPPED}", "list --all emit", f"explain profile:{SKIPPED}", "plan"])
def test_a_run_in_which_all_cases_are_skipped_succeeds_and_prints_the_reason(word: str, made: Project) -> None:
    axes = ["m=8", "n=8", "k=8", f"tuning={TILES}", "target=vmvx", "threads=1"]

    outcome = made.doit(*axes, *word.split())

    assert (outcome.code, outcome.err) == (0, ""), str(outcome)
    assert "a configuration of llvm-cpu, not of vmvx" in outcome.out
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


# A compiler that refuses a module with a dim of 13, and is the real one for all others.
PICKY = 'input=$(/bin/cat); case "$input" in *tensor\\<13x*) echo "x.mlir:1:1: error: unlucky" >&2; exit 1;; esac\n' \
    'echo "$input" | $real "$@"'  # fmt: skip


def test_a_failed_case_is_exit_code_1_and_does_not_stop_the_others(copied: Project, tmp_path: Path) -> None:
    tools = {"PYTHONPATH": toolchain(tmp_path / "tools", iree_compile=PICKY)}
    (copied.root / "specs/a.toml").write_text(sweep(m=[13, 16]))

    counts, outcome = copied.made_by("protocol=fast", code=1, **tools)

    assert counts == only(emit=1, compile=2)  # another compiler by its digest, which gives the same code
    assert "compile failed: unlucky" in outcome.out
    assert "1 failed" in outcome.out.splitlines()[-1]
    (row,) = [row for row in copied.rows() if row["m"] == 13]
    assert (row["status"], row["reason"], row["median_ns"]) == ("failed", "compile failed: unlucky", None)
    failed = "matmul_13x16x16_f32t_f32t_f32t_default@llvm-cpu-1t"
    assert "unlucky" in (copied.root / "build" / failed / "compile.log").read_text()

    # A failure that would repeat itself is not tried again, and still counts as a failure.
    parts = copied.parts()
    counts, again = copied.made_by("protocol=fast", code=1, **tools)
    assert counts == NOTHING
    assert "2 cases: nothing to do (1 reused, 1 failed in an earlier run) in " in again.out
    assert "compile failed: unlucky" in again.out
    assert copied.parts() == parts

    began = copied.query("select at from record where not ok")
    counts, retried = copied.made_by("protocol=fast", "retry=yes", code=1, **tools)
    assert f"compile {failed} FAILED" in retried.out
    assert copied.query("select at from record where not ok") > began

    # If only the correct case is selected, the exit code is 0.
    assert copied.doit("protocol=fast", f"profile:{NAME}", **tools).code == 0


def test_a_size_beyond_every_machine_is_a_failed_case_or_a_skip_and_not_a_crash(copied: Project) -> None:
    size = 2**31 - 1
    outcome = copied.doit("protocol=fast", f"m={size}", f"n={size}", f"k={size}", "threads=1", "profile:*")

    assert outcome.code in (0, 1, 3)
    assert copied.doit("protocol=fast", "profile:*").code == 0


# A runtime that writes zeros over all results, and measures as the real one does.
WRONG = '$real "$@"; for w in "$@"; do case $w in --output=@*) /usr/bin/head -c 1024 /dev/zero > ${w#--output=@};; esac; done'


def test_a_wrong_result_is_reported_and_measured_only_with_verify_warn(copied: Project, tmp_path: Path) -> None:
    tools = {"PYTHONPATH": toolchain(tmp_path / "tools", iree_run_module=WRONG)}
    words = ("protocol=fast", "m=16", "n=16", "k=16", "dtype=i8", "threads=1")
    name = "matmul_16x16x16_i8t_i8t_i32t_default@llvm-cpu-1t"

    counts, outcome = copied.made_by(*words, code=1, **tools)

    assert counts == only(emit=1, compile=1, verify=1)
    assert "different" in outcome.out
    assert 'elements are wrong on the set of inputs "exact"; worst at [' in outcome.out
    row = copied.rows()[-1]
    assert (row["case"], row["status"], row["verification"], row["median_ns"]) == (name, "failed", "different", None)
    assert row["worst_got"] == "0" != row["worst_expected"]
    folder = copied.root / "build" / name
    assert (folder / "got_exact.bin").read_bytes() == bytes(1024) != (folder / "expected_exact.bin").read_bytes()

    counts, outcome = copied.made_by(*words, "verify=warn", code=1, **tools)

    assert counts == only(profile=1)
    row = copied.rows()[-1]
    assert (row["verification"], row["median_ns"] > 0) == ("different", True)
    assert name not in copied.doit("best", "columns=case").out


def test_verify_off_measures_what_it_does_not_verify(copied: Project) -> None:
    words = ("protocol=fast", "m=20", "n=16", "k=16", "threads=1")

    counts, outcome = copied.made_by(*words, "verify=off")

    assert counts == only(emit=1, compile=1, profile=1)
    assert "not verified" in outcome.out
    (row,) = [row for row in copied.rows() if row["m"] == 20]
    assert (row["verification"], row["status"] in ("measured", "noisy", "suspect")) == ("not verified", True)
    assert "matmul_20x" not in copied.doit("best").out

    # A later verification does not repeat the measurement; a new row has its verdict.
    counts, outcome = copied.made_by(*words)
    assert counts == only(verify=1)
    assert [row["verification"] for row in copied.rows() if row["m"] == 20] == ["not verified", "within bound"]

    # A known verdict is shown even with `verify=off`.
    counts, outcome = copied.made_by(*words, "verify=off")
    assert counts == NOTHING
    assert "within bound" in outcome.out


def test_remeasure_noisy_plans_rows_above_the_given_limit_only(copied: Project) -> None:
    # The case with the least noise: on a busy machine, the interval of another one may be wider than its median.
    name = min(copied.rows(), key=lambda row: row["within_session"] or inf)["case"]
    told = [
        copied.doit("plan", "protocol=fast", "remeasure=noisy", f"noisy={limit}", f"profile:{name}").out
        for limit in ("0.0001%", "100%")
    ]
    assert ["profile  1 of 1 to run" in out for out in told] == [True, False], told
    assert "NOISY, reused" in copied.doit("protocol=fast", "noisy=0.0001%", f"profile:{name}").out


def test_remeasure_adds_rows_and_takes_none_away(copied: Project) -> None:
    before, parts = copied.rows(), copied.parts()

    counts, outcome = copied.made_by("protocol=fast", "remeasure=yes", f"profile:{NAME}")

    # The number of compiles varies: only the first project on this machine compiles the kernels of the calibration.
    assert counts == only(compile=counts["compile"], profile=counts["profile"])
    assert "1 measured" in outcome.out and "measuring this machine's highest compute and memory rates " in outcome.out
    after = copied.rows()
    assert after[: len(before)] == before
    assert [row["case"] for row in after[len(before) :]] == [NAME]
    assert len(copied.parts() - parts) == 1
    assert parts < copied.parts()

    newest = [json.loads(line) for line in copied.doit("report", "format=jsonl", NAME).out.splitlines()]
    history = [json.loads(line) for line in copied.doit("report", "format=jsonl", "history=yes", NAME).out.splitlines()]
    assert (len(newest), len(history)) == (1, 2)
    assert newest[0] == history[1] != history[0]


def test_noise_is_reported_only_if_a_measurement_is_requested(copied: Project) -> None:
    copied.write("update measurement set status = 'noisy'")

    assert "remeasure=noisy" in copied.doit("protocol=fast").out
    assert "remeasure=noisy" not in copied.doit("protocol=fast", "emit").out


@pytest.mark.parametrize(("days", "older"), [(7, 0), (0, 4)])
def test_remeasure_by_age_leaves_what_is_younger(made: Project, days: int, older: int) -> None:
    outcome = made.doit("plan", "protocol=fast", f"remeasure={days}")

    assert f"profile  {older} of 4 to run" in outcome.out


def test_a_directory_without_specs_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "dodo.py").write_text(DODO)

    outcome = Project(tmp_path).doit("list")

    assert outcome.code == 2
    assert "there are no specs here" in outcome.err
    assert "doit m=512 n=512 k=512" in outcome.err
