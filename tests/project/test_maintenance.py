"""`doit store` shows, checks and cleans a store. `doit store clean` waits until runs end.

The stores contain what the real compiler and runtime produced."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from support.project import SMALL, Project, sweep
from support.sound_store import assert_whole
from support.tools import finished, toolchain, wait_until

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

NAME = "matmul_16x16x16_f32t_f32t_f32t_default@llvm-cpu-1t"
LOOKING = ("store", "plan", f"explain profile:{NAME}", "list -s profile:*", "report", "best", "toolchains")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project with measured cases.

    Its store also has the kernels that measure the machine's highest flop/s and bytes/s."""
    folder = tmp_path_factory.mktemp("calibrated")
    project = Project.make(folder / "project", SMALL)
    outcome = project.doit("protocol=fast", "profile:matmul_*", DISPATCHFLOW_CACHE=str(folder / "cache"))
    assert outcome.code == 0, str(outcome)
    return project


def objects(project: Project) -> set[str]:
    return {path.name for path in (project.store / "objects").rglob("*") if path.is_file()}


# --- what is there


def test_the_overview_counts_every_byte_once(copied: Project) -> None:
    outcome = copied.doit("store")
    lines = [line.split("  ") for line in outcome.out.splitlines()]
    table = {line[0]: [cell.strip() for cell in line[1:] if cell.strip()] for line in lines}

    assert outcome.code == 0, str(outcome)
    assert table["modules"][0] == "2"
    assert table["compiled modules"][0] == table["configurations"][0] == "7"  # calibration kernels too
    assert "unreferenced" not in table
    assert "4 cases, " in outcome.out.splitlines()[-2]
    stray = copied.store / "objects/ab" / ("0" * 38)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"12345")
    again = copied.doit("store").out
    assert [line.split() for line in again.splitlines() if "unreferenced" in line] == [["unreferenced", "1", "5", "B"]]


# --- clean


def test_after_a_clean_everything_is_compiled_and_nothing_measured(copied: Project) -> None:
    rows, before = copied.rows(), copied.counts()

    outcome = copied.doit("store", "clean", "keep=0")

    assert outcome.code == 0, str(outcome)
    assert outcome.out.splitlines()[-1].endswith("0 objects, 0 B, stay")
    assert objects(copied) == set()
    assert copied.rows() == rows
    assert copied.counts() == before | {"emit": 0, "compile": 0}
    for words in LOOKING:
        looked = copied.doit(*words.split())
        assert looked.code == 0, looked
        # The times of emit and compile went with their records. `plan` estimates the protocol std, but only fast was
        # measured.
        assert (
            words != "plan" or "no estimate for emit, compile, profile: no earlier run recorded a time" in looked.out
        ), looked
    made, again = copied.made_by("protocol=fast", "profile:matmul_*")
    assert made == {"emit": 2, "compile": 4, "verify": 0, "profile": 0}, str(again)
    assert " failed" not in again.out.splitlines()[-1]
    assert copied.rows() == rows
    links = [path for path in (copied.root / "build").rglob("*") if path.is_symlink()]
    assert len(links) > 20
    assert [link for link in links if not link.exists()] == []
    assert_whole(copied)


def test_referenced_keeps_only_what_the_specs_need(copied: Project) -> None:
    assert copied.doit("store", "clean", "keep=referenced").out.startswith("nothing to remove; ")

    (copied.root / "specs/a.toml").write_text(sweep(m=16))
    outcome = copied.doit("store", "clean", "keep=referenced")

    assert outcome.code == 0, str(outcome)
    counts = {line.split("  ")[0]: line.split("  ")[1:] for line in outcome.out.splitlines()}
    assert next(cell.strip() for cell in counts["compiled modules"] if cell.strip()) == "3"
    made, _ = copied.made_by("protocol=fast", "profile:matmul_*")
    assert set(made.values()) == {0}
    (copied.root / "specs/a.toml").write_text("")
    refused = copied.doit("store", "clean", "keep=referenced")
    assert (refused.code, refused.out) == (2, ""), refused
    assert "there are no cases" in refused.err
    assert_whole(copied)


def test_records_that_other_commands_made_from_a_case_are_kept_with_the_case(copied: Project) -> None:
    commands = (("extract", NAME, "out=alone"), ("phases", NAME), ("locate", NAME, "reference=vmvx"))
    for words in commands:
        assert (outcome := copied.doit(*words)).code == 0, outcome
    assert copied.doit("store", "clean", "keep=referenced").out.startswith("nothing to remove; ")

    (copied.root / "specs/a.toml").write_text(sweep(m=17))
    assert copied.doit("store", "clean", "keep=referenced").code == 0

    stages = "'capture', 'extraction', 'phases', 'provenance'"
    assert copied.query(f"select stage from record where stage in ({stages})") == []
    assert_whole(copied)


def test_compiles_of_a_fetched_toolchain_are_kept_until_it_is_removed(copied: Project) -> None:
    toolchain(copied.store / "toolchains/9.9.9", iree_compile='exec "$real" "$@" --iree-opt-level=O3')
    assert copied.doit("iree=9.9.9", "compile").code == 0
    assert copied.doit("store", "clean", "keep=referenced").out.startswith("nothing to remove; ")
    assert copied.doit("toolchains", "remove=9.9.9").code == 0

    outcome = copied.doit("store", "clean", "keep=referenced")

    assert " and 4 records; " in outcome.out, str(outcome)
    assert copied.counts()["compile"] == 7


def test_a_limit_leaves_no_more_than_its_size(copied: Project) -> None:
    outcome = copied.doit("store", "clean", "limit=60KiB")

    assert outcome.code == 0, str(outcome)
    left = [path.stat().st_size for path in (copied.store / "objects").rglob("*") if path.is_file()]
    assert 0 < sum(left) <= 60 * 1024
    assert_whole(copied)
    kept = copied.doit("store", "clean", "limit=1KiB", "keep=1")
    assert kept.out.startswith("nothing to remove; "), kept
    assert "takes more than 1.00 KiB" in kept.out


def test_a_dry_clean_prints_the_same_and_removes_nothing(copied: Project) -> None:
    files = copied.files()

    dry = copied.doit("store", "clean", "keep=0", "dry=yes")

    assert dry.code == 0, dry
    assert copied.files() == files
    wet = copied.doit("store", "clean", "keep=0")
    assert dry.out.replace("would remove", "removed") == wet.out


def test_a_clean_without_a_criterion_removes_leftovers_only(copied: Project) -> None:
    before = objects(copied)
    stray = copied.store / "objects/ab" / ("0" * 38)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"12345")
    cut = copied.store / "results/x.parquet.1.tmp"
    cut.write_bytes(b"PAR1")
    scratch = copied.store / "tmp/999999999-x"
    scratch.mkdir()
    half = copied.root / "build" / NAME / ".case.txt.999999999"
    half.write_text("case")

    outcome = copied.doit("store", "clean")

    assert "removed 1 object, 5 B, and 0 records; " in outcome.out, str(outcome)
    assert objects(copied) == before
    assert not cut.exists()
    assert not scratch.exists()
    assert not half.exists()


@pytest.mark.parametrize("words", ["store keep=1", "store check limit=1GiB", "store clean sample=2", "store empty"])
def test_unknown_words_of_store_are_refused(words: str, made: Project) -> None:
    outcome = made.doit(*words.split())
    assert (outcome.code, outcome.out) == (2, ""), str(outcome)


# --- check


def test_a_check_of_a_sound_store_reports_no_damage(copied: Project) -> None:
    outcome = copied.doit("store", "check", "sample=2")

    assert outcome.code == 0, str(outcome)
    assert (
        "3 were not run again: a file that the compile reads is not in the store (files of calibration kernels never are)\n"
        in outcome.out
    )
    assert "compiles  2 of 7 run again and compared" in outcome.out
    assert "objects   20 of " in outcome.out
    assert outcome.out.splitlines()[-1] == "all sound"


def test_a_check_removes_damaged_objects_and_the_next_run_builds_them_again(copied: Project) -> None:
    (digest,) = copied.query("select outputs ->> 'vmfb' from record where stage = 'compile' limit 1")[0]
    (missing,) = copied.query("select outputs ->> 'exact_0' from record where stage = 'inputs' limit 1")[0]
    path = copied.store / "objects" / digest[:2] / digest[2:]
    path.chmod(0o644)
    path.write_bytes(b"PK")
    (copied.store / "objects" / missing[:2] / missing[2:]).unlink()
    (part,) = (copied.store / "results").iterdir()
    part.chmod(0o644)
    os.truncate(part, 100)

    outcome = copied.doit("store", "check", "sample=all")

    assert outcome.code == 1, str(outcome)
    assert f"object {digest} (compile of " in outcome.out
    assert "is damaged: removed" in outcome.out
    assert f"object {missing} (inputs of " in outcome.out
    # Not every run builds it again: a calibration kernel is compiled only by a run that calibrates.
    assert "is missing: removed; a run that needs it builds it again" in outcome.out
    assert f"{part} cannot be read" in outcome.out
    assert outcome.out.splitlines()[-1] == "3 wrong"
    part.unlink()
    assert copied.doit("protocol=fast").code == 0
    assert_whole(copied)


def test_a_damaged_database_of_records_is_reported(copied: Project) -> None:
    with (copied.store / "records.sqlite").open("r+b") as stream:
        stream.seek(3 * 4096)
        stream.write(b"\xff" * 4096)

    outcome = copied.doit("store", "check")

    assert outcome.code == 1, str(outcome)
    assert f"WRONG     {copied.store / 'records.sqlite'}: " in outcome.out
    assert "move that file away" in outcome.out
    files = objects(copied)
    for word in ("keep=0", "keep=referenced", "dry=yes"):  # else a clean would remove objects still in use
        outcome = copied.doit("store", "clean", word)
        assert outcome.code == 2 and "the records cannot be read" in outcome.err, str(outcome)
    assert objects(copied) == files


def test_a_damaged_record_is_named_and_the_others_are_checked(copied: Project) -> None:
    copied.write("update record set ingredients = replace(ingredients, 'module', 'm0dule') "
                 "where key in (select key from record where stage = 'compile' limit 1)")  # fmt: skip

    outcome = copied.doit("store", "check")

    assert outcome.code == 1, str(outcome)
    assert "is damaged: it has no module" in outcome.out
    assert outcome.out.count("WRONG") == 1


def test_compiles_of_a_toolchain_that_is_gone_are_counted_as_not_checked(copied: Project, tmp_path: Path) -> None:
    (digest,) = copied.query("select distinct ingredients ->> 'toolchain' from record where stage = 'compile'")[0]

    outcome = copied.doit("store", "check", PYTHONPATH=toolchain(tmp_path / "iree", iree_compile='exec "$real" "$@"'))

    assert outcome.code == 0, str(outcome)
    assert f"7 were not run again: toolchain {digest} is not available" in outcome.out
    assert "compiles  0 of 7" in outcome.out


# --- beside runs


def test_a_clean_waits_for_a_run_and_takes_nothing_from_it(copied: Project, tmp_path: Path) -> None:
    held, let = tmp_path / "held", tmp_path / "let"
    script = f'case "$*" in "- "*) touch {held}; while ! [ -e {let} ]; do sleep 0.05; done;; esac\nexec "$real" "$@"'
    path = toolchain(tmp_path / "iree", iree_compile=script)
    copied.doit("toolchains", PYTHONPATH=path)  # the toolchain is known now: only a case's compile waits for `let`
    held.unlink(missing_ok=True)
    run = copied.start("verify", PYTHONPATH=path)
    assert wait_until(held.exists)

    clean = copied.start("store", "clean", "keep=0")
    assert clean.stdout is not None
    assert clean.stdout.readline() == f"waits until process {run.pid} no longer uses this store\n"
    before = objects(copied)
    time.sleep(0.3)
    assert objects(copied) >= before
    let.touch()

    made, cleaned = finished(run), finished(clean)
    assert (made.code, cleaned.code) == (0, 0), (made, cleaned)
    assert "4 compiled in " in made.out
    assert objects(copied) == set()


def test_a_task_that_cleans_the_store_of_its_own_run_is_an_error(copied: Project) -> None:
    command = f"{sys.executable} -m doit store clean"
    (copied.root / "dodo.py").write_text(
        f"from dispatchflow import main\n\ndef task_tidy():\n    return {{'actions': [{command!r}]}}\n\nmain()\n"
    )

    outcome = copied.doit("tidy")

    assert outcome.code == 1, str(outcome)
    assert "a run cannot clean the store that it uses" in outcome.out + outcome.err
