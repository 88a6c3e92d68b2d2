"""`doit list`, `plan`, `explain`, `report` and `best` show what they should, and run no stage."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.project import NAME, NOTHING, Project, only, sweep
from support.tools import environment

from dispatchflow.reports.comparability import unbeaten

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree


def test_list_shows_stages_and_commands(made: Project) -> None:
    outcome = made.doit("list")

    words = [line.split()[0] for line in outcome.out.splitlines() if line]
    assert words[:4] == ["emit", "compile", "verify", "profile"]
    assert {"list", "plan", "explain", "report", "best"} <= set(words)
    assert "4 cases. To run some: doit 'profile:matmul_*'" in outcome.out


def test_list_all_shows_every_case(made: Project) -> None:
    outcome = made.doit("list", "--all", "profile")

    assert outcome.code == 0
    assert sorted(outcome.out.splitlines()) == sorted(f"profile:{row['case']}" for row in made.rows())


@pytest.mark.parametrize(
    ("pattern", "count"), [("profile:matmul_16*", 2), ("compile:*data_tiling*", 2), ("verify:*_[23]4x*", 2), ("*", 16)]
)
def test_list_takes_patterns(pattern: str, count: int, made: Project) -> None:
    outcome = made.doit("list", "--all", pattern)

    assert (outcome.code, len(outcome.out.splitlines())) == (0, count), str(outcome)


def test_list_shows_which_stages_are_made_and_which_are_to_run(copied: Project) -> None:
    copied.add(sweep(m=20))

    lines = copied.doit("list", "-s", "protocol=fast", "profile").out.splitlines()

    assert lines == copied.doit("list", "--all", "-s", "protocol=fast", "profile:*").out.splitlines()
    assert sum(line.endswith("  made") for line in lines) == 4
    assert [line for line in lines if "to run: emit, compile, verify, profile" in line] == [
        "profile:matmul_20x16x16_f32t_f32t_f32t_default@llvm-cpu-1t  to run: emit, compile, verify, profile"
    ]


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p", sweep(m=list(range(1, 3001))))
    script = f"{sys.executable} -m doit list --all profile 2>stderr | head -1"

    found = subprocess.run(["sh", "-c", script], cwd=project.root, env=environment({}), capture_output=True, text=True)

    assert found.stdout == "profile:matmul_1x16x16_f32t_f32t_f32t_default@llvm-cpu-1t\n"
    assert (project.root / "stderr").read_text() == ""


def test_plan_shows_what_a_run_would_make_and_makes_nothing(copied: Project) -> None:
    copied.add(sweep(m=20))
    files = copied.files()

    counts, outcome = copied.made_by("plan", "protocol=fast")

    assert counts == NOTHING
    assert copied.files() == files
    for stage, of in (("emit", 5), ("compile", 5), ("verify", 5), ("profile", 5)):
        assert f"{stage:<8} 1 of {of} to run\n" in outcome.out
    assert "never compiled with these ingredients" in outcome.out


def test_plan_in_a_new_project_makes_nothing(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p", sweep())

    outcome = project.doit("plan")

    assert outcome.code == 0, str(outcome)
    assert "compile  1 of 1 to run" in outcome.out
    assert project.counts() == NOTHING
    assert not list((project.store / "objects").iterdir())
    assert not (project.root / "build").exists()


def test_explain_shows_that_the_store_has_everything_if_nothing_would_run(copied: Project) -> None:
    outcome = copied.doit("explain", "protocol=fast", f"profile:{NAME}")

    assert outcome.code == 0
    for stage in ("emit", "compile", "verify", "profile"):
        assert f"\n{stage}: made: the store has it\n" in outcome.out
    assert "CHANGED" not in outcome.out
    assert "module.mlir" in outcome.out
    assert re.search(r"\n  main_dispatch_0_matmul_16x16x16_f32 +[\d.]+ [nµm]?s  DoubleTilingExpert ", outcome.out)


def test_a_changed_environment_is_explained_and_compiles_again_but_measures_nothing(copied: Project) -> None:
    # The new compile gives the same code, so no later stage runs (early cutoff).
    (copied.root / "libraries").mkdir()
    changed = {"LD_LIBRARY_PATH": str(copied.root / "libraries")}

    explained = copied.doit("explain", "protocol=fast", f"profile:{NAME}", **changed).out

    assert "\nemit: made: " in explained
    compile_part = explained.partition("\ncompile: ")[2].partition("\nverify: ")[0]
    assert compile_part.startswith("would run: ")
    assert f"LD_LIBRARY_PATH={changed['LD_LIBRARY_PATH']}" in compile_part
    assert compile_part.count("CHANGED") == 1
    assert "\nverify: would run: depends on the compiled code" in explained

    counts, outcome = copied.made_by("protocol=fast", **changed)

    assert counts == only(compile=4)
    assert "4 cases: 4 compiled" in outcome.out
    assert copied.made_by("protocol=fast")[0] == NOTHING


def test_another_protocol_is_explained(made: Project) -> None:
    outcome = made.doit("explain", "protocol=std", f"profile:{NAME}")

    assert "\nverify: made: " in outcome.out
    profile = outcome.out.partition("\nprofile: ")[2]
    assert profile.startswith("would run: this code was never measured on this device with protocol std-")
    assert "CHANGED since the last record of this name: was fast-" in profile


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
    script, paths = f"{sys.executable} -m doit {words}", (project.store, *project.store.rglob("*"))
    if os.geteuid() == 0:  # root ignores file modes: use a read-only mount in another mount namespace
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


def test_a_store_may_be_in_another_directory(made: Project, copied: Project, tmp_path: Path) -> None:
    (copied.store).rename(tmp_path / "elsewhere")

    counts = copied.doit("protocol=fast", DISPATCHFLOW_STORE=str(tmp_path / "elsewhere"))

    assert "up to date" in counts.out
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
        mine = rows[line["case"]]
        rivals = [row for row in peers if row["provider"] == mine["provider"]]
        assert mine["case"] in {row["case"] for row in unbeaten(rivals)}
        default = [row["median_ns"] for row in peers if row["tuning"] == "default"]
        if default:
            assert line["speedup"] == pytest.approx(default[0] / rows[line["case"]]["median_ns"])
