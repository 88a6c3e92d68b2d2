"""A machine's facts, such as its highest measured flop/s, are kept for all projects of a user.

Nothing fails if these facts are missing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dispatchflow.iree.targets import TARGETS
from dispatchflow.keys import digest_of
from dispatchflow.measurement.anchor_trials import Anchors
from dispatchflow.measurement.anchors import History, chosen
from dispatchflow.measurement.calibration import kernels, processor
from dispatchflow.project.dodo_file import cache_path
from dispatchflow.project.settings import settings
from dispatchflow.store import machine_facts
from dispatchflow.store.entries import Record
from dispatchflow.store.machine_facts import MachineFacts
from dispatchflow.store.store import Store


@pytest.fixture
def known(tmp_path):
    return MachineFacts(tmp_path / "cache", "this")


def files(root):
    return [path for path in root.rglob("*") if path.is_file()]


def test_facts_of_one_invocation_are_known_to_the_next(known):
    assert known.remembered("ceilings:ab") is None
    assert known.revise("ceilings:ab", lambda text: f"{text}, then\nmore") == "None, then\nmore"
    assert MachineFacts(known.root, "this").remembered("ceilings:ab") == "None, then\nmore"
    assert known.remembered("ceilings:cd") is None


def test_another_machine_with_the_same_home_knows_nothing_of_it(known):
    known.revise("ceilings:ab", lambda _: "1")
    assert MachineFacts(known.root, "other").remembered("ceilings:ab") is None


def test_a_value_that_stays_is_not_written_again(known):
    known.revise("ceilings:ab", lambda _: "1")
    (path,) = files(known.root)
    before = path.stat().st_ino, path.stat().st_mtime_ns
    known.revise("ceilings:ab", lambda _: "1")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == before


def test_files_that_are_read_are_seen_so_that_no_recorded_answer_outlives_them(known):
    seen = []
    known.revise("ceilings:ab", lambda _: "1")
    MachineFacts(known.root, "this", seen.append).remembered("ceilings:ab")
    assert seen == [str(path) for path in files(known.root)]


COUNTS = """
import sys
from pathlib import Path
from dispatchflow.store.machine_facts import MachineFacts
facts = MachineFacts(Path(sys.argv[1]), "this")
for _ in range(100):
    facts.revise("count:a", lambda text: str(int(text or 0) + 1))
"""


def test_two_processes_at_once_lose_no_change(known):
    both = [subprocess.Popen([sys.executable, "-c", COUNTS, known.root]) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert known.remembered("count:a") == "200"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"no digest", b"00\n1"])
def test_a_damaged_value_is_missing_and_written_again(known, content):
    known.revise("ceilings:ab", lambda _: "1")
    (path,) = files(known.root)
    path.write_bytes(content)
    assert known.remembered("ceilings:ab") is None
    assert known.revise("ceilings:ab", lambda text: f"{text}") == "None"
    assert known.remembered("ceilings:ab") == "None"


def test_a_half_written_value_is_damaged(known):
    known.revise("ceilings:ab", lambda _: "a long value")
    (path,) = files(known.root)
    os.truncate(path, path.stat().st_size - 1)
    assert known.remembered("ceilings:ab") is None


def test_an_object_is_complete_or_missing(known, tmp_path):
    (tmp_path / "module").write_bytes(b"code")
    digest = digest_of(b"code")
    assert known.object(digest) is None
    known.keep(digest, tmp_path / "module")
    assert known.object(digest) == b"code"
    (path,) = files(known.root)
    path.write_bytes(b"cod")
    assert known.object(digest) is None
    assert files(known.root) == []  # so that it is kept again
    known.keep(digest, tmp_path / "module")
    assert known.object(digest) == b"code"


def in_a_file(root):
    root.write_text("")
    return MachineFacts(root / "cache", "this")


def nowhere(root):
    return MachineFacts(None, "this")


def in_a_loop(root):
    root.symlink_to(root)
    return MachineFacts(root / "cache", "this")


@pytest.mark.parametrize("place", [in_a_file, nowhere, in_a_loop])
def test_without_a_writable_directory_nothing_is_known_and_nothing_fails(tmp_path, place):
    found = place(tmp_path / "home")
    (tmp_path / "module").write_bytes(b"code")
    found.keep(digest_of(b"code"), tmp_path / "module")
    assert found.revise("ceilings:ab", lambda _: "1") is None
    assert (found.remembered("ceilings:ab"), found.object(digest_of(b"code"))) == (None, None)


def test_on_a_network_file_system_nothing_is_kept(known, monkeypatch):
    monkeypatch.setattr(machine_facts, "network_mount", lambda root: "/home (nfs4)")
    assert known.revise("ceilings:ab", lambda _: "1") is None
    assert (known.remembered("ceilings:ab"), known.root.exists()) == (None, False)


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({"HOME": "/home/a"}, "/home/a/.cache/dispatchflow"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "/x"}, "/x/dispatchflow"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "relative"}, "/home/a/.cache/dispatchflow"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "/x", "DISPATCHFLOW_CACHE": "/c"}, "/c"),
        ({"HOME": "/home/a", "DISPATCHFLOW_CACHE": ""}, "/home/a/.cache/dispatchflow"),
    ],
)
def test_the_directory_is_the_user_s_unless_a_variable_names_another(monkeypatch, variables, path):
    for name in ("HOME", "XDG_CACHE_HOME", "DISPATCHFLOW_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_path() == Path(path)


# --- the anchors' history


class Project:
    """A stand-in for a project: it stores a short text in place of a compiled kernel."""

    def __init__(self, root, known, code, run):
        self.store, self.known, self.code, self.run, self.compiled = Store(root), known, code, run, 0
        self.kernels = chosen(kernels(processor(TARGETS["llvm-cpu"], "avx2", 2**25), 2**34))
        ceilings = SimpleNamespace(
            place=lambda target, device: (target.name, 1),
            calibrated=lambda target, device: device,
            kernels=lambda target: self.kernels,
            name=lambda target, device: "ceilings:ab",
            compiled=self._compiled,
        )
        executor = SimpleNamespace(resolver=SimpleNamespace(settings=settings({})))
        self.place = Anchors(self.store, known, executor, ceilings, run).of(TARGETS["llvm-cpu"], None)

    def _compiled(self, kernel, target):
        self.compiled += 1
        # The text stands for the compiled kernel. Another `code` stands for another compiler.
        return Record(
            "k", "compile", True, outputs={"vmfb": self.store.put_bytes(f"{self.code} {kernel.name}".encode())}
        )

    def measure(self, ns):
        for trial in self.place.trials:
            trial.blocks_ns += [ns, ns * 1.01, ns * 1.02]
        return self.place.moment("key", {}, [])[0]

    @property
    def history(self):
        return History.of(self.store.records.remembered(self.place.name))

    @property
    def machines(self):
        return History.of(self.known.remembered(self.place.name))


@pytest.fixture
def project(tmp_path, known):
    return lambda name, code="new", run="r0", at=known: Project(tmp_path / name, at, code, run)


def test_a_new_project_continues_the_machine_s_history_with_its_modules(project):
    assert project("a").measure(1e6).sessions == 1
    other = project("b", code="of another compiler", run="r1")
    moment = other.measure(1.1e6)
    assert (other.compiled, moment.sessions, moment.factor) == (0, 2, pytest.approx(1.1))
    assert other.history == other.machines
    assert list(other.machines.sessions) == ["r0", "r1"]


def test_a_store_that_outlives_the_directory_continues_and_writes_it_again(project, tmp_path):
    project("a").measure(1e6)
    again = project("a", run="r1", at=MachineFacts(tmp_path / "empty", "this"))
    assert again.measure(1.1e6).factor == pytest.approx(1.1)
    assert list(again.machines.sessions) == ["r0", "r1"]


def test_a_store_that_began_with_other_times_keeps_its_own(project, tmp_path):
    project("a", at=MachineFacts(None, "this")).measure(1e6)
    project("b").measure(2e6)
    again = project("a", run="r1")
    assert again.measure(1.1e6).factor == pytest.approx(1.1)
    assert list(again.machines.sessions) == ["r0"]


def test_anchors_that_do_not_run_with_this_runtime_begin_a_history_of_this_store_alone(project):
    project("a").measure(1e6)
    other = project("b", code="old", run="r1")
    for trial in [*other.place.trials]:
        trial.failure["repeatable"] = True
        other.place.failed(trial)
    assert other.measure(1e6).factor is None
    again = project("b", code="old", run="r2")
    assert (again.compiled, again.measure(2e6).factor) == (2, pytest.approx(1.0))
    assert list(again.machines.sessions) == ["r0"]
    assert list(project("b", code="old", run="r3").history.sessions) == ["r2"]


def test_two_new_projects_at_once_have_one_history(project):
    first, second = project("a"), project("b", run="r1")
    moments = first.measure(1e6), second.measure(1.1e6)
    assert [moment.factor for moment in moments] == [pytest.approx(1.0), pytest.approx(1.1)]
    assert first.machines.reference_ns == second.history.reference_ns
    assert list(first.machines.sessions) == ["r0", "r1"]


def test_two_new_projects_at_once_with_other_compilers_each_have_their_own(project, known, tmp_path):
    machines = known.remembered
    known.remembered = lambda name: None  # the other project begins right after this look-up
    first, second = project("a"), project("b", code="old", run="r1")
    known.remembered = machines
    assert [first.measure(1e6).factor, second.measure(2e6).factor] == [pytest.approx(1.0)] * 2
    assert list(first.machines.sessions) == ["r0"]
    assert list(second.history.sessions) == ["r1"]


def test_a_history_that_is_lost_during_a_session_continues_from_the_store(project, known):
    one = project("a")
    one.measure(1e6)
    for path in files(known.root):
        path.write_bytes(b"")
    assert one.measure(1e6).sessions == 1
    assert one.machines == one.history
    assert json.loads(known.remembered(one.place.name))["reference_ns"]
