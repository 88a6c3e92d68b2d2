"""Releases are fetched whole or not at all, once, and used offline: with the real pip, from an index of tiny wheels."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.project import Project, compiler_folder, kill, processes_in, sweep, wait_until, write_script

from dispatchflow.errors import DiskFull, ToolchainError
from dispatchflow.project import store_check
from dispatchflow.project.workspace import Workspace
from dispatchflow.store import disk
from dispatchflow.store.store import Store
from dispatchflow.tools import releases, toolchain

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

NOWHERE = {
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_RETRIES": "1",
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_FIND_LINKS": "",
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_NO_CACHE_DIR": "1",
}
"""An index that nobody serves, and no other place where pip could look."""

STARTS = f"'{compiler_folder()}/iree-lld' -flavor gnu --version > /dev/null\n"
"""A script that starts no program cannot be identified."""
COMPILER = f"#!/bin/sh\n{STARTS}echo IREE compiler version {{version}}rc20990102 @ 0123456789abcdef\n"
FILES = {
    "iree_base_compiler": {
        "iree/compiler/_mlir_libs/iree-compile": COMPILER,
        "iree/compiler/_mlir_libs/libIREECompiler.so": "the library of {version}" + " " * 200_000,
        "iree/compiler/_mlir_libs/_mlir.so": "a Python binding",
    },
    "iree_base_runtime": {
        "iree/_runtime_libs/iree-run-module": "#!/bin/sh\n",
        "iree/_runtime_libs/iree-benchmark-module": "#!/bin/sh\n",
        "iree/_runtime_libs/version.py": 'VERSION = "{version}"\n',
        "iree/runtime/array.py": "a Python binding",
    },
}


def wheel(name: str, version: str) -> bytes:
    folder = f"{name}-{version}.dist-info"
    files = {path: text.replace("{version}", version) for path, text in FILES[name].items()}
    files[f"{folder}/METADATA"] = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
    files[f"{folder}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
    files[f"{folder}/RECORD"] = ""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return stream.getvalue()


class Index:
    """Serves 9.8.0 and 9.9.0 as PyPI does. `open` is cleared to stop in the middle of each compiler's wheel."""

    def __init__(self) -> None:
        self.wheels = {
            f"{name}-{version}-py3-none-any.whl": wheel(name, version)
            for name in FILES
            for version in ("9.8.0", "9.9.0")
        }
        self.sent: Counter[str] = Counter()
        self.open = threading.Event()
        self.open.set()
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.answer(self)

            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.environment = {**NOWHERE, "PIP_INDEX_URL": f"http://127.0.0.1:{self.server.server_port}/simple"}

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        name = request.path.strip("/").split("/")[-1]
        content = self.wheels.get(name)
        page = content is None
        if content is None:
            links = [file for file in self.wheels if file.startswith(name.replace("-", "_"))]
            content = "".join(f'<a href="/files/{link}">{link}</a>\n' for link in links).encode()
        request.send_response(200)
        request.send_header("Content-Type", "text/html" if page else "application/octet-stream")
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        if not page:
            self.sent[name] += 1
            if not self.open.is_set():
                request.wfile.write(content[: len(content) // 2])
                self.open.wait(60)
                content = content[len(content) // 2 :]
        request.wfile.write(content)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    served = Index()
    thread = threading.Thread(target=served.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    for name, value in served.environment.items():
        monkeypatch.setenv(name, value)
    yield served
    served.open.set()
    served.server.shutdown()
    thread.join()
    served.server.server_close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def assert_nothing_left(store: Store) -> None:
    assert list(releases.folder(store).glob("*")) == []
    assert list((store.root / "tmp").iterdir()) == []


def test_a_release_is_fetched_once_and_used_without_the_index(
    index: Index, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    place = releases.fetched(store, "9.9.0", said.append)

    assert said == ["fetching iree-base-compiler and iree-base-runtime 9.9.0", f"fetched 0 MiB, kept in {place}"]
    kept = sorted(os.fspath(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
    wanted = [path for files in FILES.values() for path, text in files.items() if "binding" not in text]
    assert kept == sorted([*wanted, "RECORD.json"])
    for name, value in NOWHERE.items():
        monkeypatch.setenv(name, value)
    found = toolchain.find(store, "9.9.0", said.append)
    assert (found.version, found.revision) == ("9.9.0rc20990102", "0123456789abcdef")
    assert found.runtime_version == "9.9.0"
    assert releases.fetched(store, "9.9", said.append) == place
    assert len(said) == 2
    assert list((store.root / "tmp").iterdir()) == []


def test_an_edited_release_is_told_by_a_run_and_by_a_check(index: Index, store: Store, tmp_path: Path) -> None:
    place = releases.fetched(store, "9.9.0", lambda line: None)
    said: list[str] = []
    toolchain.find(store, "9.9.0", said.append)
    assert (releases.edited(store, "9.9.0"), said) == ([], [])
    tool, gone = "iree/_runtime_libs/iree-benchmark-module", "iree/_runtime_libs/version.py"
    with (place / tool).open("a") as stream:
        stream.write("# a byte more\n")
    warning = f"iree=9.9.0 is damaged or was edited: {tool} differs from what was fetched; doit toolchains remove=9.9.0"
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
    assert f"iree=9.9.0 is damaged or was edited: {tool} differs, {gone} is missing from what was fetched" in found
    assert "doit toolchains remove=9.9.0" in found


def test_an_unchanged_release_is_read_once(index: Index, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain.find(store, "9.9.0", lambda line: None)
    monkeypatch.setattr(releases, "edited", lambda *_: pytest.fail("read again"))
    toolchain.find(store, "9.9.0", lambda line: None)


def test_two_releases_differ_in_their_digest(index: Index, store: Store) -> None:
    digests = {toolchain.find(store, version, lambda line: None).digest for version in ("9.8.0", "9.9.0")}
    assert len(digests) == 2


def test_an_unknown_release_tells_the_known_ones_and_leaves_nothing(index: Index, store: Store) -> None:
    with pytest.raises(ToolchainError, match="there is no such release") as caught:
        releases.fetched(store, "9.9.7", lambda line: None)

    assert caught.value.facts["known"] == "9.9.0, 9.8.0"
    assert_nothing_left(store)


def test_without_a_network_it_says_so_and_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NOWHERE.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ToolchainError, match="the package index cannot be reached") as caught:
        releases.fetched(store, "9.9.0", lambda line: None)

    assert "Connection refused" in str(caught.value.facts["pip says"])
    assert_nothing_left(store)


@pytest.mark.parametrize("damaged", [b"not a zip", wheel("iree_base_compiler", "9.8.0")[:-30]])
def test_a_damaged_wheel_is_an_error_and_leaves_nothing(damaged: bytes, index: Index, store: Store) -> None:
    index.wheels["iree_base_compiler-9.9.0-py3-none-any.whl"] = damaged

    with pytest.raises(ToolchainError, match="cannot be"):
        releases.fetched(store, "9.9.0", lambda line: None)

    assert_nothing_left(store)


def test_a_full_disk_while_unpacking_is_an_error_and_leaves_nothing(
    index: Index, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "_unpack", lambda wheel, place: Path("/dev/full").write_text("x" * 100_000))

    with pytest.raises(OSError) as caught:
        releases.fetched(store, "9.9.0", lambda line: None)

    assert disk.is_full(caught.value)
    assert_nothing_left(store)


def test_a_full_disk_while_fetching_is_told_as_that(
    index: Index, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip says it in a traceback; the lines it calls errors do not."""
    pip = "import sys\nsys.stderr.write('ERROR: Exception:\\nOSError: [Errno 28] No space left on device\\n')\nsys.exit(2)\n"
    write_script(store.root / "python", f'exec {sys.executable} -c "{pip}"')
    monkeypatch.setattr(sys, "executable", os.fspath(store.root / "python"))

    with pytest.raises(DiskFull):
        releases.fetched(store, "9.9.0", lambda line: None)

    assert_nothing_left(store)


def test_a_release_has_one_name() -> None:
    assert all(map(releases.is_version, ("3.12", "3.12.0", "3.0.0", "3.12.0rc1", "20241104.1068")))
    assert not any(map(releases.is_version, ("03.12.0", "3.012", "3", "3.12.0.1", "v3.12.0", "3.1x")))


def test_a_release_of_which_files_are_gone_says_how_to_fetch_it_anew(index: Index, store: Store) -> None:
    place = releases.fetched(store, "9.9.0", lambda line: None)
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


FETCH = """
import sys
from pathlib import Path
from dispatchflow.tools import releases
from dispatchflow.store.store import Store
releases._SAY_EVERY_S = 0.05
releases.fetched(Store(Path(sys.argv[1])), "9.9.0", lambda line: print(line, flush=True))
"""


def fetching(store: Store) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, os.fspath(store.root)], text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_a_killed_fetch_leaves_nothing_half_and_the_next_one_goes_on(index: Index, store: Store) -> None:
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


def test_progress_counts_each_wheel_once_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "_SAY_EVERY_S", 0.01)
    (tmp_path / "pip-unpack-a").mkdir()
    for name, mebibytes in {"a.whl": 1, "pip-unpack-a/a.whl": 2, "b.whl": 1, "tmp0buffer": 3}.items():
        (tmp_path / name).write_bytes(bytes(mebibytes << 20))
    said: list[str] = []
    with releases._progress(tmp_path, said.append):
        assert wait_until(lambda: said)
    assert said[0] == "  3 MiB so far"


def test_two_at_once_fetch_it_once(index: Index, store: Store) -> None:
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


def test_doit_lists_and_removes_toolchains(index: Index, tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", sweep())
    releases.fetched(Store(project.store), "9.9.0", lambda line: None)
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
    sizes = [line for line in given.out.splitlines() if re.search(r" \d[\d.]* [KM]iB ", line)]
    assert [line.split()[0] for line in sizes] == ["current", "9.9.0"], given.out  # this one fetched just now
    assert "9.9.0" not in removed.out
    assert "toolchain '9.9.0' was not fetched" in again.err
    assert "there is no such release for this machine" in unknown.err


@pytest.mark.slow
def test_a_real_release_is_fetched_used_offline_and_removed(tmp_path: Path) -> None:
    """Needs the network, and 350 MB."""
    project = Project.make(tmp_path / "project", sweep(target="vmvx", m=8))

    first = project.doit("verify", "iree=3.12.0")
    offline = project.doit("verify", "iree=3.12.0", "retry=yes", **NOWHERE)
    listed = project.doit("toolchains", **NOWHERE)
    removed = project.doit("toolchains", "remove=3.12.0")

    assert (first.code, offline.code, listed.code, removed.code) == (0, 0, 0, 0), (first, offline)
    assert "fetching iree-base-compiler and iree-base-runtime 3.12.0" in first.out
    assert "fetch" not in offline.out
    assert "nothing made" in offline.out
    (line,) = (line for line in listed.out.splitlines() if line.startswith("3.12.0"))
    assert "3.12.0rc" in line
    assert "MiB" in line
    assert "3.12.0" not in removed.out
    assert not list((project.store / "toolchains").iterdir())
