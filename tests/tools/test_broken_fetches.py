"""A failed or killed download of a release leaves no files.

If two processes fetch the same release at once, only one downloads it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.release_index import FILES, NOWHERE, Index, assert_nothing_left, wheel
from support.tools import kill, processes_in, wait_until, write_script

from dispatchflow.errors import DiskFull, ToolchainError
from dispatchflow.store import disk
from dispatchflow.store.store import Store
from dispatchflow.tools import releases, toolchain

pytest_plugins = ["support.project", "support.release_index"]
pytestmark = pytest.mark.iree


def test_an_unknown_release_is_an_error_that_lists_known_ones_and_leaves_nothing(index: Index, store: Store) -> None:
    with pytest.raises(ToolchainError, match="there is no such release") as caught:
        releases.fetch(store, "9.9.7", lambda line: None)

    assert caught.value.facts["known"] == "9.9.0, 9.8.0"
    assert_nothing_left(store)


def test_a_fetch_without_a_network_reports_that_and_leaves_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in NOWHERE.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ToolchainError, match="the package index cannot be reached") as caught:
        releases.fetch(store, "9.9.0", lambda line: None)

    assert "Connection refused" in str(caught.value.facts["pip says"])
    assert_nothing_left(store)


@pytest.mark.parametrize("damaged", [b"not a zip", wheel("iree_base_compiler", "9.8.0")[:-30]])
def test_a_damaged_wheel_is_an_error_and_leaves_nothing(damaged: bytes, index: Index, store: Store) -> None:
    index.wheels["iree_base_compiler-9.9.0-py3-none-any.whl"] = damaged

    with pytest.raises(ToolchainError, match="cannot be"):
        releases.fetch(store, "9.9.0", lambda line: None)

    assert_nothing_left(store)


def test_a_full_disk_while_unpacking_is_an_error_and_leaves_nothing(
    index: Index, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "_unpack", lambda wheel, place: Path("/dev/full").write_text("x" * 100_000))

    with pytest.raises(OSError) as caught:
        releases.fetch(store, "9.9.0", lambda line: None)

    assert disk.is_full(caught.value)
    assert_nothing_left(store)


def test_a_full_disk_while_fetching_is_reported_as_a_full_disk(
    index: Index, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pip names the full disk only in a traceback, not in its `ERROR:` lines.
    pip = "import sys\nsys.stderr.write('ERROR: Exception:\\nOSError: [Errno 28] No space left on device\\n')\nsys.exit(2)\n"
    write_script(store.root / "python", f'exec {sys.executable} -c "{pip}"')
    monkeypatch.setattr(sys, "executable", os.fspath(store.root / "python"))

    with pytest.raises(DiskFull):
        releases.fetch(store, "9.9.0", lambda line: None)

    assert_nothing_left(store)


FETCH = """
import sys
from pathlib import Path
from dispatchflow.tools import releases
from dispatchflow.store.store import Store
releases._SAY_EVERY_S = 0.05
releases.fetch(Store(Path(sys.argv[1])), "9.9.0", lambda line: print(line, flush=True))
"""


def fetching(store: Store) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, os.fspath(store.root)], text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_a_killed_fetch_leaves_nothing_incomplete_and_the_next_one_succeeds(index: Index, store: Store) -> None:
    index.open.clear()
    process = fetching(store)
    assert process.stdout is not None
    assert "fetching" in process.stdout.readline()
    assert "MiB so far" in process.stdout.readline()
    half = len(index.wheels["iree_base_compiler-9.9.0-py3-none-any.whl"]) // 2
    begun = wait_until(
        lambda: any(path.stat().st_size >= half // 2 for path in (store.root / "tmp").rglob("*.whl")), 20
    )

    kill(process)
    index.open.set()

    assert begun, "what is fetched is not in the store's scratch, where a later run clears it"
    assert wait_until(lambda: not processes_in(store.root), 20), processes_in(store.root)
    assert list(releases.folder(store).glob("*")) == []
    again = Store(store.root)
    assert_nothing_left(again)
    assert toolchain.find(again, "9.9.0", lambda line: None).version == "9.9.0rc20990102"


def test_two_runs_at_once_fetch_a_release_once(index: Index, store: Store) -> None:
    index.open.clear()
    processes = [fetching(store)]
    assert wait_until(lambda: index.sent.total() == 1)
    processes.append(fetching(store))
    assert processes[1].stdout is not None
    assert re.fullmatch(r"waits until process \d+ \(.+\) has fetched 9\.9\.0\n", processes[1].stdout.readline())
    index.open.set()

    said = [process.communicate(timeout=60)[0] for process in processes]

    assert [process.returncode for process in processes] == [0, 0], said
    assert index.sent == {f"{name}-9.9.0-py3-none-any.whl": 1 for name in FILES}
    assert sorted("fetched 0 MiB" in words for words in said) == [False, True]
    assert len(list(releases.folder(store).iterdir())) == 1
