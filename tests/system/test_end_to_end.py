"""Runs of `doit`, with the real compiler and runtime, make what is missing and nothing else."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.project import NAME, NOTHING, TILED, Project, only, sweep
from support.tools import Outcome, environment

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree


def test_the_first_run_makes_everything_and_prints_a_table_and_counts(first_run: tuple[Project, Outcome]) -> None:
    _, outcome = first_run
    lines = outcome.out.splitlines()
    header = next(line for line in lines if line.startswith("case "))

    assert outcome.code == 0, str(outcome)
    assert header.split() == [
        "case",
        "verification",
        "median",
        "±here",
        "±",
        "GFLOP/s",
        "GB/s",
        "peak",
        "applied",
        "state",
    ]
    table = lines[lines.index(header) + 1 :][:4]
    assert all("within bound" in line and line.endswith("measured now") for line in table)
    assert sum(line.startswith(NAME) for line in table) == 1
    assert lines[-1].startswith("4 cases: 2 emitted, 4 compiled, 4 verified, 4 measured in ")
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
    assert len(row["blocks_ns"]) == 9
    assert min(row["blocks_ns"]) == row["min_ns"] <= row["median_ns"]
    assert row["later_low_ns"] < row["median_ns"] < row["later_high_ns"]
    assert row["ci_low_ns"] <= row["median_ns"] <= row["ci_high_ns"]
    assert row["ci_high_ns"] / row["ci_low_ns"] < row["later_high_ns"] / row["later_low_ns"]
    assert (row["sensitivity"], row["sensitivity_uncertainty"]) == pytest.approx((0.8, 1.96 * 0.4))
    if row["anchored_low_ns"] is not None:  # the anchored interval is narrower
        anchored = row["anchored_high_ns"] / row["anchored_low_ns"]
        assert anchored < row["later_high_ns"] / row["later_low_ns"]
        assert row["anchored_median_ns"] == pytest.approx(
            row["median_ns"] / row["session_factor"] ** row["sensitivity"]
        )
    assert len(row["anchors_ns"]) == len(row["anchors_reference_ns"]) == 2
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
    assert "4 cases: up to date (4 reused) in " in outcome.out
    assert outcome.out.count("reused\n") == 4
    assert copied.files() == files
    assert (copied.parts(), copied.rows()) == (parts, rows)


def test_the_stages_before_profile_need_no_protocol_and_are_made_too(copied: Project) -> None:
    for stage in ("emit", "compile", "verify", f"verify:{NAME}"):
        counts, outcome = copied.made_by(stage)
        assert counts == NOTHING
        assert "up to date" in outcome.out


def test_a_new_case_alone_is_made(copied: Project) -> None:
    before = {row["case"]: row for row in copied.rows()}
    copied.add(sweep(m=[16, 20]))

    counts, outcome = copied.made_by("protocol=fast")

    assert counts == only(emit=1, compile=1, verify=1, profile=1)
    assert "5 cases: 4 reused; 1 emitted, 1 compiled, 1 verified, 1 measured in " in outcome.out
    after = {row["case"]: row for row in copied.rows()}
    assert set(after) - set(before) == {"matmul_20x16x16_f32t_f32t_f32t_default@llvm-cpu-1t"}
    assert all(after[name] == row for name, row in before.items())


def test_a_case_taken_away_and_brought_back_is_not_made_again(copied: Project) -> None:
    spec = (copied.root / "specs/a.toml").read_text()
    (copied.root / "specs/a.toml").write_text(sweep(m=[16]))
    counts, outcome = copied.made_by("protocol=fast")
    assert (counts, "1 case: up to date" in outcome.out) == (NOTHING, True)

    (copied.root / "specs/a.toml").write_text(spec)
    counts, outcome = copied.made_by("protocol=fast")

    assert (counts, "4 cases: up to date" in outcome.out) == (NOTHING, True)


def test_equal_code_is_verified_and_measured_once(copied: Project) -> None:
    # The distribution tiles are larger than the matrix, so the two tunings give the same code.
    names = [f"double_tiling_{tile}x{tile}_4x16x1" for tile in (64, 128)]
    (copied.root / "specs/a.toml").write_text(sweep(tuning=names))

    counts, _ = copied.made_by("protocol=fast")

    assert counts == only(emit=2, compile=2, verify=1, profile=1)
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
    assert counts == only(emit=6, compile=6, verify=6)
    assert "6 cases: 6 emitted, 6 compiled, 6 verified in " in outcome.out


def test_a_range_that_no_step_ends_is_noted(made: Project) -> None:
    outcome = made.doit("plan", "m=8:40:24", "n=8", "k=8", "threads=1")

    assert "note: command line.m: '8:40:24' ends at 32; no step reaches 40" in outcome.out


def test_a_skip_is_shown_with_its_reason(made: Project) -> None:
    outcome = made.doit("plan", "target=vmvx", "tuning=double_tiling_64x64_4x16x1")

    assert outcome.code in (0, 3)
    assert "double tiling is a configuration of llvm-cpu" in outcome.out + outcome.err


def test_an_idle_run_is_quick(made: Project) -> None:
    # The limit is exceeded only if a compiler or a benchmark runs.
    began = time.monotonic()

    assert "up to date" in made.doit("protocol=fast").out
    assert time.monotonic() - began < 20
