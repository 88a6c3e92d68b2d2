"""A test suite with a folder for each test is verified, and its failures become known failures."""

import csv
import io
import json
import tomllib

import pytest
from support import suite_folders
from support.project import Project

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree


def test_a_suite_is_verified_and_an_error_in_one_folder_is_that_folders_failure(tmp_path):
    project = Project.make(tmp_path)
    suite_folders.make(tmp_path / "suite")
    words = ("suite=suite/*", "threads=1", "verify")
    outcome = project.doit(*words)
    assert outcome.code == 1, str(outcome)
    assert "failed: run_module_io_flags.txt:1: --inputs is not understood. Did you mean 'input'?" in outcome.out
    assert "skipped: no flag file (run_module_io_flags.txt) (module_no_flags)" in outcome.out
    assert "failed: 7 elements of result 0 are wrong" in outcome.out
    assert "module_broken_broken_default@llvm-cpu-1t" in outcome.out
    assert "6 cases (and 2 skipped): " in outcome.out and "3 failed; " in outcome.out
    (tmp_path / "suite/odd_flag/run_module_io_flags.txt").write_text(suite_folders.FLAGS)
    assert "2 failed in an earlier run; 1 verified in " in project.doit(*words).out

    project.doit("report", *words[:2], "stage=verify", "format=csv", "out=verdicts.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "verdicts.csv").read_text())))
    assert {row["case"].partition("_")[2].partition("_default")[0]: row["verdict"] for row in rows} == {
        "broken_broken": "not compiled",
        "odd_flag_odd_flag": "right",
        "right_right": "right",
        "scalar_scalar": "right",
        "several_several": "right",
        "wrong_wrong": "wrong",
    }
    (wrong,) = project.doit("report", "stage=verify", "*wrong*", "format=jsonl", *words[:2]).out.splitlines()
    assert json.loads(wrong)["reason"].startswith("7 elements of result 0 are wrong")
    assert json.loads(wrong)["toolchain_version"]
    assert "unknown column 'median'" in project.doit("report", "stage=verify", "columns=median", *words[:2]).err


def test_current_failures_are_written_as_known_failures_and_a_fix_is_reported(tmp_path):
    project = Project.make(tmp_path)
    suite_folders.make(tmp_path / "suite")
    words = ("suite=suite/*", "threads=1")
    assert project.doit(*words, "verify").code == 1
    for said in ("3 failures written to specs/known.toml", "3 failures written"):  # it may replace its own entries
        outcome = project.doit("known", *words, "write=specs/known.toml")
        assert outcome.code == 0 and said in outcome.out, str(outcome)
    entries = tomllib.loads((tmp_path / "specs/known.toml").read_text())["known_failure"]
    assert sorted(entry["stage"] for entry in entries) == ["emit", "verify", "verify"]
    some = project.doit("known", "suite=suite/wrong", "threads=1", "write=specs/known.toml").out
    assert (
        "1 failure written to specs/known.toml, which keeps 2 failures of cases that are not selected, not tried, or no longer exist;"
        in some
    )
    assert some.endswith("each run reads the entries of files in specs/\n")
    assert "it must be a .toml file in specs/\n" in project.doit("known", *words, "write=known.toml").out
    again = project.doit(*words, "verify")
    assert again.code == 0 and "3 known failures" in again.out, str(again)
    (tmp_path / "suite/odd_flag/run_module_io_flags.txt").write_text(suite_folders.FLAGS)
    fixed = project.doit(*words, "verify")
    assert "no longer fails: run_module_io_flags.txt:N: --inputs is not understood" in fixed.out, str(fixed)
    (tmp_path / "specs/mine.toml").write_text("# mine\n")
    assert "has something else in it" in project.doit("known", *words, "write=specs/mine.toml").err
