"""`tests/support/compiled.py` reuses the result of an earlier compile only for the same input."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import compiled

from dispatchflow.tools.limits import Limits
from dispatchflow.tools.outcome import Outcome

ARGV = (f"{sys.prefix}/iree-compile", "-", "--flag", "-o", "module.vmfb")


class Compiler:
    """A stand-in for the compiler: it counts its calls, and its output is the input in capital letters."""

    def __init__(self, kept: Path, code: int = 0) -> None:
        self.calls, self.kept, self.code = 0, kept, code
        kept.mkdir(exist_ok=True)

    def __call__(self, executor: Any, argv: tuple[str, ...], scratch: Path, stdin: str | None) -> Outcome:
        self.calls += 1
        (scratch / "cfg").mkdir()
        (scratch / "cfg/main.mlir").write_text("chosen")
        (scratch / "module.vmfb").write_bytes((scratch / "module.mlir").read_bytes().upper())
        return Outcome(self.code, False, 1.5, 1.25, 1000)

    def made(self, scratch: Path, text: str = "a", argv: tuple[str, ...] = ARGV, digest: str = "d") -> Any:
        """Compile `text`, or reuse the kept result of an equal compile.

        Returns the outcome and the files as {path: content}. `digest` identifies the toolchain."""
        scratch.mkdir()
        (scratch / "module.mlir").write_text(text)
        resolver = SimpleNamespace(toolchain=SimpleNamespace(digest=digest), environment={"LC_ALL": "C"})
        executor: Any = SimpleNamespace(resolver=resolver, limits=Limits())
        outcome = compiled.keeping(self, self.kept)(executor, argv, scratch, "module.mlir")
        files = (path for path in scratch.rglob("*") if path.is_file())
        return outcome, {os.fspath(path.relative_to(scratch)): path.read_bytes() for path in files}


def test_an_equal_compile_runs_once_and_its_files_are_copied(tmp_path: Path) -> None:
    compiler = Compiler(tmp_path / "kept")

    first, second = compiler.made(tmp_path / "1"), compiler.made(tmp_path / "2")

    assert compiler.calls == 1
    assert first == second
    assert second[1] == {"module.mlir": b"a", "module.vmfb": b"A", "cfg/main.mlir": b"chosen"}


@pytest.mark.parametrize(
    "changed",
    [{"text": "b"}, {"digest": "another toolchain"}, {"argv": (*ARGV, "--another")}],
    ids=lambda words: next(iter(words)),
)
def test_a_different_compile_runs(changed: dict[str, Any], tmp_path: Path) -> None:
    compiler = Compiler(tmp_path / "kept")
    compiler.made(tmp_path / "1")

    compiler.made(tmp_path / "2", **changed)

    assert compiler.calls == 2


@pytest.mark.parametrize("argv", [("/elsewhere/iree-compile", "-"), (*ARGV, "--file=/x/y")], ids=["tool", "path"])
def test_a_compile_that_reads_other_files_always_runs(argv: tuple[str, ...], tmp_path: Path) -> None:
    compiler = Compiler(tmp_path / "kept")

    for name in ("1", "2"):
        compiler.made(tmp_path / name, argv=argv)

    assert compiler.calls == 2


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    compiler = Compiler(tmp_path / "kept", code=1)

    for name in ("1", "2"):
        compiler.made(tmp_path / name)

    assert compiler.calls == 2


def test_kept_compiles_stay_below_the_limit_and_the_newest_are_kept(tmp_path: Path) -> None:
    compiler = Compiler(kept := tmp_path / "kept")
    for age, text in enumerate("abc"):
        compiler.made(tmp_path / text, text)
        (new,) = {path for path in kept.glob("*/") if path.stat().st_mtime > 1e6}
        os.utime(new, (1000 + age, 1000 + age))

    compiled.limit(kept, largest_bytes=200)

    (left,) = kept.glob("*/")
    assert (left / "made/module.vmfb").read_bytes() == b"C"
