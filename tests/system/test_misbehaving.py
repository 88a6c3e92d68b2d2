"""If a compiler or a module misbehaves, only the affected case fails, and its record says why."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.square_cases import default_case, verified, verify_is_not_reached
from support.tools import QUESTIONS, runtime_folder, write_script

from dispatchflow.engine.executor import dumped
from dispatchflow.keys import Digest
from dispatchflow.operations import OPERATIONS
from dispatchflow.project.workspace import Workspace
from dispatchflow.tools.limits import Limits

pytest_plugins = ["support.square_cases"]
pytestmark = pytest.mark.iree


def with_runtime(workspace: Workspace, folder: Path, run_module: str) -> Workspace:
    """Make a runtime in `folder`, and return the workspace, which now uses this runtime.

    The runtime's `iree-run-module` is a script with the text `run_module`; the other files are the installed ones."""
    folder.mkdir()
    for path in runtime_folder().iterdir():
        if path.name != "iree-run-module":
            (folder / path.name).symlink_to(path)
    write_script(folder / "iree-run-module", run_module)
    workspace.toolchain = replace(workspace.toolchain, runtime=str(folder))
    return workspace


_FINAL_OUTPUT = 'for word in "$@"; do case $word in --output=@*) out=${word#--output=@};; esac; done'

MISBEHAVING_RUNS = {
    "exit 1 with a message": ("echo 'it went wrong: error: no such device' >&2; exit 1", "no such device"),
    "exit 1 in silence": ("exit 1", "exit code 1"),
    "death by a signal": ("kill -SEGV $$", "died by SIGSEGV"),
    "no end": ("sleep 600", "took longer than"),
    "too few bytes": (f"{_FINAL_OUTPUT}; printf abc > $out", "3 B were written"),
    "no output": ("exit 0", "0 B were written"),
    "only zeros": (
        f"{_FINAL_OUTPUT}; /usr/bin/head -c 1024 /dev/zero > $out",
        'elements are wrong on the set of inputs "exact"',
    ),
    "only ones": (
        f"{_FINAL_OUTPUT}; /usr/bin/head -c 1024 /dev/zero | /usr/bin/tr '\\0' '\\377' > $out",
        'elements are wrong on the set of inputs "exact"; worst at',
    ),
}


@pytest.mark.parametrize("fault", MISBEHAVING_RUNS)
def test_a_module_that_does_not_run_leaves_a_reason(fault: str, squares: Workspace, tmp_path: Path) -> None:
    script, reason = MISBEHAVING_RUNS[fault]
    squares.settings = replace(squares.settings, limits=Limits(run_s=0.5 if fault == "no end" else 60.0))
    workspace, case = with_runtime(squares, tmp_path / "runtime", script), default_case(OPERATIONS["matmul"], "f32")
    began = time.monotonic()

    record = verified(workspace, case)

    assert not record.ok
    assert reason in (record.reason or "")
    assert record.facts["verification"] == ("different" if "wrong" in reason else "not compared")
    assert workspace.resolver.chain(case)["profile"].state == "blocked"
    assert time.monotonic() - began < 60


def test_one_module_that_does_not_run_does_not_stop_the_others(squares: Workspace, tmp_path: Path) -> None:
    # The script kills itself if an operand is f64, and runs the real tool otherwise.
    real = runtime_folder() / "iree-run-module"
    script = f'case "$*" in *xf64*) kill -SEGV $$;; esac\nexec {real} "$@"'
    workspace = with_runtime(squares, tmp_path / "runtime", script)
    cases = [default_case(OPERATIONS["matmul"], word) for word in ("f32", "f64", "i8")]

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda case: verified(workspace, case), cases))

    assert [record.ok for record in found] == [True, False, True]


EMPTY_EXECUTABLE = """\
import sys, zipfile
with zipfile.ZipFile("module.vmfb", "w") as made:
    made.writestr("module.fb", b"program")
    made.writestr("main_dispatch_0_embedded_elf_x86_64.so", b"")
"""

MISBEHAVING_COMPILERS = {
    "no output": ("exit 0", "wrote no module"),
    "exit 1 with a long message": (
        "i=0; while [ $i -lt 3000 ]; do echo 'note: " + "x" * 100 + "' >&2; i=$((i+1)); done; "
        "echo 'module.mlir:1:1: error: it is refused' >&2; exit 1",
        "compile failed: it is refused",
    ),
    "colours": ("printf 'error: it is \\033[31mrefused' >&2; exit 1", "compile failed: it is refused"),
    "death by a signal": ("kill -ABRT $$", "died by SIGABRT"),
    "no end": ("sleep 600", "took longer than"),
    "an empty executable": ("{python} {folder}/empty.py", "is empty"),
    "no archive": ("echo something else > module.vmfb", "cannot be opened"),
    "a link": ("ln -s /etc/passwd module.vmfb", "wrote no module"),
    "a pipe": ("mkfifo module.vmfb", "wrote no module"),
    "an empty file": (": > module.vmfb", "cannot be opened"),
}


@pytest.mark.parametrize("fault", MISBEHAVING_COMPILERS)
def test_a_compiler_that_misbehaves_leaves_a_reason(fault: str, squares: Workspace, tmp_path: Path) -> None:
    script, reason = MISBEHAVING_COMPILERS[fault]
    (tmp_path / "empty.py").write_text(EMPTY_EXECUTABLE)
    script = script.replace("{python}", sys.executable).replace("{folder}", str(tmp_path))
    asked = f'case "$*" in {QUESTIONS}) exec {squares.toolchain.compiler} "$@";; esac\n'
    write_script(tmp_path / "iree-compile", asked + script)
    squares.toolchain = replace(squares.toolchain, compiler=str(tmp_path / "iree-compile"), digest=Digest(fault))
    assert squares.host.name  # ask the real compiler for the CPU before the limit is short
    squares.settings = replace(squares.settings, limits=Limits(compile_s=0.5 if fault == "no end" else 60.0))
    case = default_case(OPERATIONS["matmul"], "f32")

    compiled = squares.executor.compile(case)

    assert not compiled.ok
    assert reason in (compiled.reason or "")
    assert len(compiled.reason or "") < 1000
    if fault == "exit 1 with a long message":  # the reason is short, the log is complete
        assert squares.store.path(compiled.outputs["log"]).stat().st_size > 300_000
    assert squares.resolver.chain(case)["verify"].state == "blocked"
    assert verify_is_not_reached(squares, case)


def test_pipes_and_links_among_the_configurations_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "cfg").mkdir()
    (tmp_path / "cfg/a.mlir").write_text("a")
    os.mkfifo(tmp_path / "cfg/b.mlir")
    (tmp_path / "cfg/c.mlir").symlink_to("/etc/passwd")

    assert dumped(tmp_path, "cfg") == b"a"


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        (lambda self, operands: operands[5], "failed: IndexError: list index out of range (test_misbehaving.py, line "),
        (lambda self, operands: operands[0][0], "has the shape (16,); the result's is (16, 16)"),
    ],
)
def test_a_reference_that_cannot_be_had_fails_its_cases(
    reference: Callable[..., Any], says: str, squares: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = default_case(OPERATIONS["matmul"], "f32")
    monkeypatch.setattr(OPERATIONS["matmul"], "reference", reference)

    assert verify_is_not_reached(squares, case)

    failure = squares.resolver.chain(case).failure
    assert failure is not None
    assert (failure.stage, failure.state) == ("verify", "failed")
    assert failure.why.startswith(f"the reference of matmul {says}")
