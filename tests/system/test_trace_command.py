"""`doit trace` lists the zones of a run.

A zone is a named part of a program whose executions are timed. The tests use the runtime that IREE instruments
for Tracy."""

from __future__ import annotations

import csv
import io
import os
import signal
import sys
from pathlib import Path

import pytest

from dispatchflow.iree import tracy_file
from tests.support.project import Project
from tests.support.tools import finished, processes_in, runtime_folder, toolchain, wait_until

pytestmark = pytest.mark.iree

WORDS = ("m=64", "n=64", "k=64", "threads=1", "protocol=fast")
INSTRUMENTED = (runtime_folder().parent / "_runtime_libs_tracy").is_dir()
needs_tracy = pytest.mark.skipif(not INSTRUMENTED, reason="this release has no Tracy runtime for this platform")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.make(tmp_path_factory.mktemp("trace") / "p")


@needs_tracy
def test_all_zones_of_a_case_are_read_and_its_dispatch_has_its_site(project: Project) -> None:
    out = project.doit(*WORDS, "trace", "out=net.tracy", "top=3")
    assert out.code == 0, out
    title, header, dispatch, *_ = out.out.splitlines()
    assert title.startswith("trace of 20 calls of matmul_64x64x64")
    assert header.split() == ["zone", "count", "total", "median", "sites", "operations", "source"]
    kernel, count, *_ = dispatch.split()
    assert kernel.startswith("main_dispatch_0") and int(count) % 20 == 0 and "  1  " in dispatch
    module, _, line = dispatch.split()[-1].rpartition(":")  # in build/, and the path exists
    assert f"func.func @{kernel}(" in (project.root / module).read_text().splitlines()[int(line) - 1]
    assert Path(module).parts[0] == "build" and "linalg.matmul" in (project.root / module).read_text()

    found = tracy_file.read((project.root / "net.tracy").read_bytes())
    assert sum(zone.count for zone in found.zones) + found.unfinished == found.recorded > 1000
    assert {zone.name: zone.count for zone in found.zones}["BenchmarkIteration"] == 20
    assert project.counts()["profile"] == 0  # times of instrumented runs are recorded nowhere

    shown = project.doit("trace", "net.tracy", "format=csv")
    rows = list(csv.DictReader(io.StringIO(shown.out)))
    assert len(rows) == len(found.zones) and rows[0]["zone"] == kernel and rows[0]["count"] == count


@needs_tracy
def test_a_program_is_traced_and_its_output_and_failure_passed_on(project: Project) -> None:
    script = "import sys; from iree.runtime import VmInstance; VmInstance(); print(sys.argv[1:]); sys.exit(4)"
    out = finished(project.start("trace", "--", sys.executable, "-c", script, "-v", "n=3"))
    assert out.code == 1, out
    assert out.out.startswith("['-v', 'n=3']\ntrace of ") and "the traced program failed: exit code 4" in out.err


@needs_tracy
def test_a_signal_while_it_waits_leaves_no_process(project: Project) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        waiting = project.start("trace", "--", "sleep", "600")
        assert wait_until(lambda: any("iree-tracy-capture" in each for each in processes_in(project.root)))
        os.killpg(waiting.pid, number)
        waiting.communicate(timeout=60)
        assert waiting.returncode == (-number if number is signal.SIGKILL else 128 + number)
        assert wait_until(lambda: not processes_in(project.root), 10), processes_in(project.root)


def test_a_trace_that_cannot_be_taken_or_read_is_refused(project: Project, tmp_path: Path) -> None:
    def refused(*words: str, **variables: str) -> tuple[int, str]:
        out = project.doit(*words, **variables)
        return out.code, out.err

    code, said = refused(*WORDS, "trace", PYTHONPATH=toolchain(tmp_path / "plain"))
    assert code == 1 and "no Tracy runtime" in said and "Linux only" in said
    code, said = refused(*WORDS, "provider=numpy", "trace")
    assert code == 2 and "numpy brings its own code" in said
    code, said = refused("trace", "--", "no-such-program")
    assert code == 2 and "no program 'no-such-program'" in said and "not executable" not in said
    code, said = refused("trace", "out=x.tracy", "--", "dodo.py")
    assert code == 2 and "no program 'dodo.py'" in said and "not executable" in said
    code, said = refused("trace", "--")
    assert code == 2 and "no program follows --" in said and "doit trace -- python" in said
    code, said = refused("trace", "case", "--", "sleep", "1")
    assert code == 2 and "a case or a program" in said
    code, said = refused(*WORDS, "trace", "out=net.txt")
    assert code == 2 and "must end with .tracy" in said
    code, said = refused("list", "--", "x")
    assert code == 2 and "list starts no other program" in said
    (project.root / "old.tracy").write_bytes(b"tlZ\x04")
    for name, problem in (("old.tracy", "no .tracy file"), ("missing.tracy", "cannot be read")):
        code, said = refused("trace", name)
        assert code == 2 and problem in said
