"""Projects, specs, stores, toolchains and reports may have names and paths of any bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.project import NAME, NOTHING, Project, assert_whole, only, sweep
from support.tools import QUESTIONS, toolchain, write_script

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree


@pytest.mark.parametrize("name", ["a 'b' \"c\" $HOME é 名", "x=1, %s; *?[a] you@home"])
def test_a_directory_may_have_any_name(name: str, made: Project, tmp_path: Path) -> None:
    project = made.copy(tmp_path / name)
    project.add(sweep(m=20))

    counts, outcome = project.made_by("protocol=fast")

    assert counts == {"emit": 1, "compile": 1, "verify": 1, "profile": 1}, str(outcome)
    assert "5 cases: " in outcome.out
    folder = project.root / "build" / "matmul_20x16x16_f32t_f32t_f32t_default@llvm-cpu-1t"
    (own := tmp_path / "tmp").mkdir()
    for word, said in (("compile", "same bytes\n"), ("run", "")):
        variables = {"TMPDIR": os.fspath(own), "PATH": os.environ["PATH"]}
        found = subprocess.run([folder / "repro.sh", word], cwd="/", env=variables, capture_output=True, text=True)
        assert (found.returncode, found.stdout.endswith(said)) == (0, True), found.stderr
        assert list(own.iterdir()) == []
    assert project.doit("explain", f"profile:{folder.name}").code == 0


def test_spec_files_may_have_any_name(made: Project, tmp_path: Path) -> None:
    project = made.copy(tmp_path / "p")
    project.add(sweep(m=0), "ein 'Größen' \"Test\".toml")

    outcome = project.doit("list")

    assert outcome.code == 2
    assert "specs/ein 'Größen' \"Test\".toml:1, sweep[0].m" in outcome.err


ODD = "\udcff\udcfe"  # bytes that are not UTF-8, as `os.fsdecode` returns them


@pytest.mark.parametrize("name", [f"-n{ODD}\n b"])
def test_every_command_works_in_a_directory_with_an_odd_name(name: str, made: Project, tmp_path: Path) -> None:
    project = made.copy(tmp_path / name)
    project.add(sweep(m=20), f"{name}.toml")

    outcome = project.doit("protocol=fast")

    assert outcome.code == 0, str(outcome)
    assert "5 cases: 4 reused; 1 emitted, 1 compiled, 1 verified, 1 measured in " in outcome.out
    assert_whole(project)
    for words in (["list", "--all", "-s"], ["plan"], ["explain", f"profile:{NAME}"], ["report"], ["toolchains"]):
        assert project.doit(*words).code == 0
    found = subprocess.run(
        [project.root / "build" / NAME / "repro.sh", "compile"], cwd="/", env={}, capture_output=True, text=True
    )
    assert (found.returncode, found.stdout) == (0, "same bytes\n"), found.stderr


@pytest.mark.parametrize(
    "name", [f"{ODD}.toml", "-x.toml", "../specs/a'b.toml", "two\nlines.toml", "$(true) `x` [1]*.toml"]
)
def test_a_spec_is_named_on_the_command_line(name: str, copied: Project) -> None:
    copied.add(sweep(m=40), name)

    outcome = copied.doit("list", "--all", "profile", f"specs=specs/{name}")

    assert outcome.code == 0, str(outcome)
    assert "profile:matmul_40x16x16_f32t_f32t_f32t_default@llvm-cpu-1t" in outcome.out


def test_a_wrong_spec_is_named_even_if_its_path_is_not_utf_8(copied: Project) -> None:
    copied.add(sweep(m=0), f"{ODD}.toml")

    outcome = copied.doit("list")

    assert outcome.code == 2
    assert "\\udcff\\udcfe.toml:1, sweep[0].m" in outcome.err


STORES = [f"../s{ODD}", "-store", "../link/../../x 'y'\n$z"]


@pytest.mark.parametrize("name", STORES)
def test_a_store_may_have_an_odd_name(name: str, copied: Project, tmp_path: Path) -> None:
    (tmp_path / "far/away").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/away")  # `link/..` is far/, not `tmp_path`
    place = Path(os.path.realpath(copied.root / name))
    copied.store.rename(place)
    copied.add(sweep(m=20))

    outcome = copied.doit("protocol=fast", DISPATCHFLOW_STORE=name)

    assert outcome.code == 0, str(outcome)
    assert "5 cases: 4 reused; " in outcome.out
    assert not copied.store.exists()
    made = copied.root / "build/matmul_20x16x16_f32t_f32t_f32t_default@llvm-cpu-1t/module.vmfb"
    assert made.resolve(strict=True).is_relative_to(place)


def test_a_toolchain_may_be_in_a_folder_with_an_odd_name(copied: Project, tmp_path: Path) -> None:
    # IREE 3.13 passes the paths of its linker and of the linker's files to a shell without quoting them.
    folder, log = tmp_path / f"-it's a @ {ODD}\n", tmp_path / "linked"
    toolchain(folder)
    words = ("protocol=fast", "iree=../" + folder.name)
    tools = folder / "iree/compiler/_mlir_libs"
    for name in ("iree-compile", "iree-lld"):  # copies: the compiler resolves links to find its linker
        real = (tools / name).resolve()
        (tools / name).unlink()
        shutil.copy(real, tools)

    counts, outcome = copied.made_by(*words)
    assert counts == NOTHING, outcome  # the same digests as in any other folder

    (tools / "iree-lld").rename(tools / "iree-real")
    write_script(tools / "iree-lld", f'echo "$@" >> {log}; exec "${{0%lld}}real" "$@"')  # for another digest
    counts, outcome = copied.made_by(*words, TMPDIR=os.fspath(folder))

    assert counts == only(compile=4), outcome  # compiled again, to the same code
    linked = [line for line in log.read_text().splitlines() if "--version" not in line]
    assert len(linked) == 4
    assert all(" -o ./" in line and line.split()[-1].startswith("./") for line in linked), linked
    explained = copied.doit("explain", *words, f"profile:{NAME}").out
    by_hand = explained.partition("  compile: ")[2].partition("  run: ")[0]
    script = os.fspath(copied.root / "build" / NAME / "repro.sh")
    for argv in (("sh", "-c", by_hand), (script, "compile")):
        subprocess.run(argv, check=True, cwd="/", env={"TMPDIR": os.fspath(folder)})
    assert log.read_text().count(" -o ./") == 6
    outcome = copied.doit("iree=--help")
    assert (outcome.code, "iree=--help has no compiler" in outcome.err) == (2, True)


@pytest.mark.parametrize("name", [f"rows{ODD}.csv", "-rows.csv", "two\nlines.csv", "../rows 'a'.csv"])
def test_a_report_can_be_written_to_a_file_with_an_odd_name(name: str, copied: Project) -> None:
    outcome = copied.doit("report", "format=csv", f"out={name}")

    assert (outcome.code, outcome.out) == (0, ""), str(outcome)
    assert (copied.root / name).read_text().count("matmul_") >= 4


def test_a_report_that_cannot_be_written_is_an_error(copied: Project) -> None:
    outcome = copied.doit("report", f"out=missing{ODD}/rows")

    assert (outcome.code, "cannot be written" in outcome.err) == (2, True), str(outcome)


def test_a_failure_that_names_a_path_of_any_bytes_becomes_a_row(copied: Project, tmp_path: Path) -> None:
    folder = tmp_path / f"t{ODD}"
    toolchain(folder, iree_run_module=f'case "$*" in {QUESTIONS}) exec $real "$@";; esac\nexec "$0.locked"')
    (folder / "iree/_runtime_libs/iree-run-module.locked").touch(0o644)
    copied.add(sweep(m=20))

    outcome = copied.doit("protocol=fast", f"iree={folder}", "profile:*_20x*")

    assert outcome.code == 1, str(outcome)
    assert "Permission denied" in outcome.out
    assert "Permission denied" in copied.rows()[-1]["reason"]
    assert copied.doit("protocol=fast", "profile:*_20x*").code == 0
