"""A release of IREE is downloaded once, completely or not at all, and then used without the network.

The real pip fetches tiny wheels from a local index. One slow test fetches a real release."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from support.project import Project, sweep
from support.release_index import FILES, NOWHERE, Index
from support.tools import wait_until, write_script

from dispatchflow.errors import ToolchainError
from dispatchflow.project import store_check
from dispatchflow.project.workspace import Workspace
from dispatchflow.store.store import Store
from dispatchflow.tools import releases, toolchain

pytest_plugins = ["support.project", "support.release_index"]
pytestmark = pytest.mark.iree


def test_a_release_is_fetched_once_and_used_without_the_index(
    index: Index, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    place = releases.fetch(store, "9.9.0", said.append)

    done = [line for line in said if "so far" not in line]  # a slow machine also reports the progress
    assert done == ["fetching iree-base-compiler and iree-base-runtime 9.9.0", f"fetched 0 MiB, kept in {place}"]
    kept = sorted(os.fspath(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
    wanted = [path for files in FILES.values() for path, text in files.items() if path != "iree/runtime/array.py"]
    assert kept == sorted([*wanted, "RECORD.json"])
    for name, value in NOWHERE.items():
        monkeypatch.setenv(name, value)
    said.clear()
    found = toolchain.find(store, "9.9.0", said.append)
    assert (found.version, found.revision) == ("9.9.0rc20990102", "0123456789abcdef")
    assert found.runtime_version == "9.9.0"
    assert releases.fetch(store, "9.9", said.append) == place
    assert said == []
    assert list((store.root / "tmp").iterdir()) == []


def test_an_edited_release_is_reported_by_a_run_and_by_a_check(index: Index, store: Store, tmp_path: Path) -> None:
    place = releases.fetch(store, "9.9.0", lambda line: None)
    said: list[str] = []
    toolchain.find(store, "9.9.0", said.append)
    assert (releases.edited(store, "9.9.0"), said) == ([], [])
    tool, gone = "iree/_runtime_libs/iree-benchmark-module", "iree/_runtime_libs/version.py"
    with (place / tool).open("a") as stream:
        stream.write("# a byte more\n")
    warning = f"iree=9.9.0 is damaged or was edited: {tool} differs; to fetch it again: doit toolchains remove=9.9.0"
    for _ in range(2):
        toolchain.find(store, "9.9", said.append)
    assert said == [warning, warning]
    (place / gone).unlink()
    assert releases.edited(store, "9.9.0") == [f"{tool} differs", f"{gone} is missing"]
    workspace = Workspace(tmp_path, {})
    workspace.store.root.mkdir(parents=True, exist_ok=True)
    (store.root / "toolchains").rename(workspace.store.root / "toolchains")
    found, sound = store_check.check(workspace)
    assert not sound
    assert f"iree=9.9.0 is damaged or was edited: {tool} differs, {gone} is missing" in found
    assert "doit toolchains remove=9.9.0" in found


def test_an_unchanged_release_is_read_once(index: Index, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain.find(store, "9.9.0", lambda line: None)
    monkeypatch.setattr(releases, "edited", lambda *_: pytest.fail("read again"))
    toolchain.find(store, "9.9.0", lambda line: None)


def test_two_releases_differ_in_their_digest(index: Index, store: Store) -> None:
    digests = {toolchain.find(store, version, lambda line: None).digest for version in ("9.8.0", "9.9.0")}
    assert len(digests) == 2


def test_a_release_has_one_name() -> None:
    assert all(map(releases.is_version, ("3.12", "3.12.0", "3.0.0", "3.12.0rc1", "20241104.1068")))
    assert not any(map(releases.is_version, ("03.12.0", "3.012", "3", "3.12.0.1", "v3.12.0", "3.1x")))


def test_a_release_with_missing_files_is_an_error_that_says_how_to_fetch_it_again(index: Index, store: Store) -> None:
    place = releases.fetch(store, "9.9.0", lambda line: None)
    (place / toolchain.COMPILER).unlink()

    with pytest.raises(ToolchainError, match=r"iree=9\.9\.0 has no compiler") as caught:
        toolchain.find(store, "9.9.0", lambda line: None)

    assert "doit toolchains remove=9.9.0" in caught.value.hint
    write_script(place / toolchain.COMPILER, "exit 7")
    with pytest.raises(ToolchainError, match=r"iree-compile does not run") as caught:
        toolchain.find(store, "9.9.0", lambda line: None)
    assert "doit toolchains remove=9.9.0" in caught.value.hint
    releases.remove(store, "9.9.0")
    assert toolchain.find(store, "9.9.0", lambda line: None).version


def test_progress_counts_each_wheel_once_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "_SAY_EVERY_S", 0.01)
    (tmp_path / "pip-unpack-a").mkdir()
    for name, mebibytes in {"a.whl": 1, "pip-unpack-a/a.whl": 2, "b.whl": 1, "tmp0buffer": 3}.items():
        (tmp_path / name).write_bytes(bytes(mebibytes << 20))
    said: list[str] = []
    with releases._progress(tmp_path, said.append):
        assert wait_until(lambda: said)
    assert said[0] == "  3 MiB so far"


def test_doit_lists_and_removes_toolchains(index: Index, tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", sweep())
    releases.fetch(Store(project.store), "9.9.0", lambda line: None)
    (project.store / "toolchains/junk").mkdir()

    listed = project.doit("toolchains")
    removed = project.doit("toolchains", "remove=9.9.0")
    again = project.doit("toolchains", "remove=9.9.0")
    unknown = project.doit("list", "iree=9.9.7")
    given = project.doit("toolchains", "iree=9.9.0")
    assert listed.out.count("9.9.0 ") == given.out.count("9.9.0 ") == 1, given
    assert "junk" not in listed.out + project.doit("toolchains", "remove=junk").err.partition("fetched  ")[2]
    assert project.doit("toolchains", "foo").err.startswith("doit: toolchains takes no words")

    assert (listed.code, removed.code, again.code, unknown.code) == (0, 0, 2, 2)
    (line,) = (line for line in listed.out.splitlines() if line.startswith("9.9.0"))
    found = toolchain.find(Store(project.store), "9.9.0", lambda line: None)
    for word in ("9.9.0rc20990102", "0123456789ab", found.digest, "MiB"):
        assert word in line
    sizes = [line for line in given.out.splitlines() if re.search(r"^\S+ .* \d[\d.]* [KM]iB ", line)]
    assert [line.split()[0] for line in sizes] == ["current", "9.9.0"], given.out  # the command fetched 9.9.0 again
    assert "9.9.0" not in removed.out
    assert "toolchain '9.9.0' was not fetched" in again.err
    assert "there is no such release for this machine" in unknown.err


@pytest.mark.slow
def test_a_real_release_is_fetched_used_offline_and_removed(tmp_path: Path) -> None:
    # The test needs the network and downloads 350 MB.
    project = Project.make(tmp_path / "project", sweep(target="vmvx", m=8))

    first = project.doit("verify", "iree=3.12.0")
    offline = project.doit("verify", "iree=3.12.0", "retry=yes", **NOWHERE)
    listed = project.doit("toolchains", **NOWHERE)
    removed = project.doit("toolchains", "remove=3.12.0")

    assert (first.code, offline.code, listed.code, removed.code) == (0, 0, 0, 0), (first, offline)
    assert "fetching iree-base-compiler and iree-base-runtime 3.12.0" in first.out
    assert "fetch" not in offline.out
    assert "up to date" in offline.out
    (line,) = (line for line in listed.out.splitlines() if line.startswith("3.12.0"))
    assert "3.12.0rc" in line
    assert "MiB" in line
    assert "3.12.0" not in removed.out
    assert not list((project.store / "toolchains").iterdir())
