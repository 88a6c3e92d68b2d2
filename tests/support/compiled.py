"""Keep the results of compiles, because many tests compile the same cases in projects of their own.

The results are reused only by `doit` processes that `Project.doit` forks. Failed compiles are not kept, because tests
check how failures are reported."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from dispatchflow.engine.executor import ActionExecutor
from dispatchflow.keys import digest_file, key_of
from dispatchflow.tools.outcome import Outcome

LARGEST_BYTES = 200 << 20
"""The largest total size of the results that are kept from one session of pytest to the next."""
Compile = Callable[[ActionExecutor, tuple[str, ...], Path, str | None], Outcome]


def folder() -> Path:
    """Return the folder that keeps the results of compiles for later test runs."""
    return Path(os.environ["DISPATCHFLOW_CACHE"]).parent / "compiled"


def limit(kept: Path, largest_bytes: int = LARGEST_BYTES) -> None:
    """Remove the oldest results in the folder `kept` until all others take at most `largest_bytes`."""
    left = largest_bytes
    for entry in sorted(kept.glob("*/"), key=lambda path: path.stat().st_mtime, reverse=True):
        left -= sum(path.stat().st_size for path in _files(entry))
        if left < 0:
            shutil.rmtree(entry, ignore_errors=True)


def install(kept: Path) -> None:
    """Make this process, and processes forked from it, reuse the results of compiles in the folder `kept`."""
    kept.mkdir(parents=True, exist_ok=True)
    ActionExecutor.run_compiler = keeping(ActionExecutor.run_compiler, kept)  # type: ignore[method-assign]


def keeping(compile_it: Compile, kept: Path) -> Compile:
    """Return a function like `compile_it` that reuses the results of equal compiles.

    The results of successful compiles are kept in the folder `kept`."""

    def run_compiler(executor: ActionExecutor, argv: tuple[str, ...], scratch: Path, stdin: str | None) -> Outcome:
        name = _name(executor, argv, scratch, stdin)
        if name is None:
            return compile_it(executor, argv, scratch, stdin)
        with (kept / f"{name}.lock").open("w") as lock:  # waiting for the same compile takes less time than compiling
            fcntl.flock(lock, fcntl.LOCK_EX)
            # OSError: no result is kept yet, or the test's disk is full, which the compiler then reports.
            with contextlib.suppress(OSError):
                shutil.copytree(kept / name / "made", scratch, copy_function=shutil.copy, dirs_exist_ok=True)
                return Outcome(**json.loads((kept / name / "outcome.json").read_text()))
            given = _files(scratch)
            outcome = compile_it(executor, argv, scratch, stdin)
            if outcome.failure is None:
                with contextlib.suppress(OSError):
                    _keep(kept, name, outcome, scratch, [path for path in _files(scratch) if path not in given])
            return outcome

    return run_compiler


def _name(executor: ActionExecutor, argv: tuple[str, ...], scratch: Path, stdin: str | None) -> str | None:
    """Return a key of everything that determines a compile's result, or None.

    None means that the result must not be kept: the tool is outside this Python environment, or an argument is a path.
    """
    if not argv[0].startswith(sys.prefix) or any("/" in word for word in argv[1:]):
        return None
    limits = executor.limits
    return key_of(
        "a test's compile",
        {
            "toolchain": executor.resolver.toolchain.digest,
            "environment": dict(executor.resolver.environment),
            "argv": argv,
            "stdin": stdin,
            "limits": repr((limits.compile_s, limits.memory_asked and limits.memory_bytes)),
            "files": {os.fspath(path.relative_to(scratch)): digest_file(path) for path in _files(scratch)},
        },
    )


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _keep(kept: Path, name: str, outcome: Outcome, scratch: Path, made: list[Path]) -> None:
    """Copy the result of a compile to the folder `kept`.

    The copy gets its final name only when it is complete, because a test may be killed at any time."""
    with tempfile.TemporaryDirectory(dir=kept, ignore_cleanup_errors=True) as new:
        for path in made:
            to = Path(new, "made", path.relative_to(scratch))
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
        Path(new, "outcome.json").write_text(json.dumps(asdict(outcome)))
        Path(new).rename(kept / name)
