"""Fixtures of all tests, and the set-up of test runs."""

from __future__ import annotations

import compileall
import ctypes
import gc
import os
import signal
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path, PurePath
from typing import Any

import hypothesis
import pytest
from support import compiled

import dispatchflow
from dispatchflow.cases.case import Case
from dispatchflow.engine.resolver import Resolver
from dispatchflow.engine.settings import Settings
from dispatchflow.iree.cpu_features import HostCpu
from dispatchflow.iree.targets import Device, Target
from dispatchflow.iree.toolchain import Toolchain
from dispatchflow.keys import Digest
from dispatchflow.planning import parser, plan
from dispatchflow.planning.plan import Plan
from dispatchflow.store.records import Records
from dispatchflow.timing.protocols import PROTOCOLS

# No deadline: a test may be slow on a busy machine.
hypothesis.settings.register_profile("fast", max_examples=30, deadline=None, database=None)
hypothesis.settings.load_profile("fast")

pytest.register_assert_rewrite(
    "support.project", "support.release_index", "support.sound_store", "support.square_cases"
)  # test files import these modules before pytest loads them as plugins

GOLDEN = Path(__file__).parent / "golden"

_NEW_MOUNTS, _PRIVATE = 0x20000, 0x44000


def pytest_configure(config: pytest.Config) -> None:
    """Set up signals and environment variables for the tests and their `doit` processes.

    Also compile dispatchflow to bytecode. If the system permits it, give each pytest worker its own lock for
    measurements, so that several workers may measure at the same time."""
    # Thousands of test objects stay alive. Garbage collections, which visit all of them, took a quarter of the time in
    # which pytest collects the tests.
    gc.set_threshold(100_000, 20, 100)
    # A shell's background job ignores SIGINT, and a program that `nohup` starts ignores SIGHUP; `doit` in the tests
    # would inherit that.
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    # All workers and all later test runs share the facts about the machine: its calibration and anchors.
    os.environ["DISPATCHFLOW_CACHE"] = os.fspath(config.rootpath / ".pytest_cache" / "dispatchflow")
    if "PYTEST_XDIST_WORKER" not in os.environ:
        # The workers start later and inherit this variable. numpy's threads wait for each other by spinning; with more
        # workers than cores, this doubled the processor time of the tests.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # The tests start `doit` more than a thousand times, and these processes write no bytecode.
        compileall.compile_dir(Path(dispatchflow.__file__).parent, quiet=2)
        compiled.limit(compiled.folder())
    else:
        # A /dev/shm of its own has its own lock for measurements, so that several workers may measure at once. No test
        # checks a time.
        libc = ctypes.CDLL(None)
        if libc.unshare(_NEW_MOUNTS) == 0 and libc.mount(b"none", b"/", None, _PRIVATE, None) == 0:
            libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files in which the marker expression selects no test, because importing them takes seconds."""
    selected = config.option.markexpr
    if collection_path.suffix != ".py" or not selected.startswith(("iree and ", "not iree and ")):
        return None  # other plugins decide
    text = collection_path.read_text()
    without = "\npytestmark = pytest.mark.iree\n" in text if selected.startswith("not") else "mark.iree" not in text
    return without or None


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    names = {item.nodeid, item.nodeid.partition("[")[0]}
    if names & _of_slow_toml("tests") and not names & _of_slow_toml("but"):
        item.add_marker(pytest.mark.slow)


@cache
def _of_slow_toml(key: str) -> set[str]:
    tables = tomllib.loads((Path(__file__).parent / "slow.toml").read_text(encoding="utf-8"))["slow"]
    return {name for table in tables for name in table.get(key, ())}


_LONGEST = ("test_hidden_features.py", "test_adding.py", "test_readme.py")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Distribute the longest tests over the workers. Each worker runs its long tests first.

    A worker that begins a long test late would end later than the other workers."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    longest = [item for item in items if item.path.name in _LONGEST]
    items[:] = [item for item in items if item.path.name not in _LONGEST]
    for number, item in enumerate(longest):
        items.insert(number % workers * (len(items) // workers), item)


TOOLCHAIN = Toolchain(
    compiler="iree-compile",
    runtime="runtime",
    version="3.13.0",
    revision="0123456789",
    digest=Digest("digest-of-the-toolchain"),
    size_bytes=0,
    runtime_version="3.13.0",
    runtime_digest=Digest("digest-of-the-runtime"),
    dispatch_statistics=True,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", choices=["check", "update"], default="check", help="update: write golden files anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function (name, text) that asserts that the file `golden/NAME` contains exactly this text.

    With `--golden=update`, the function first writes the file."""

    def compare(name: str, text: str) -> None:
        if request.config.getoption("--golden") == "update":
            (GOLDEN / name).write_text(text)
        assert (GOLDEN / name).is_file(), f"tests/golden/{name} is missing; make it with --golden=update"
        assert text == (GOLDEN / name).read_text(), "if this is meant: --golden=update, and read the diff"

    return compare


@pytest.fixture(scope="session")
def plan_of() -> Callable[..., Plan]:
    """Return a function that makes a plan from the text of a spec.

    Keyword arguments of that function, except `tags`, act as variables of the command line."""

    def make(text: str, tags: tuple[str, ...] = (), **overrides: Any) -> Plan:
        return plan.expand(parser.parse(text, PurePath("specs/t.toml"), overrides), tags)

    return make


@pytest.fixture(scope="session")
def case_of() -> Callable[..., Case]:
    """Return a function that makes a case from the keys and values of a sweep, such as `m=8`.

    Without arguments, the case is matmul 4x5x6 f32 on llvm-cpu."""

    def make(**words: Any) -> Case:
        sizes = {} if "shape" in words else {"m": 4, "n": 5, "k": 6}
        found = plan.expand([parser.sweep({"operation": "matmul", **sizes, **words}, "here")])
        (case,) = found.cases
        return case

    return make


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "records.sqlite")


@pytest.fixture
def resolver_of(records: Records) -> Callable[..., Resolver]:
    """Return a function that creates a `Resolver`, which finds the states of cases in the records.

    The resolver has a constant toolchain, CPU and device, so that no tool runs. Keyword arguments of the function
    replace arguments of `Resolver`."""

    def device_of(target: Target, threads: int | None) -> Device:
        threads = threads or 8
        identity = {"uri": target.device(threads), "cpu": "cpu", "features": "f", "microcode": "1"}
        if target.runtime_is_code:
            identity["runtime"] = TOOLCHAIN.runtime_digest
        return Device(identity["uri"], threads, tuple(range(threads)), identity)

    def make(**changed: Any) -> Resolver:
        values: dict[str, Any] = {
            "records": records,
            "toolchain": TOOLCHAIN,
            "host": HostCpu("znver3", "+avx,+avx2,+fma"),
            "environment": {"LC_ALL": "C"},
            "settings": Settings(PROTOCOLS["std"]),
            "device_of": device_of,
            "now": 1e9,
            "run": "this-run",
        }
        return Resolver(**values | changed)

    return make
