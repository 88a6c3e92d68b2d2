"""What the compiler made is kept for all tests: many of them make a project of their own, and compile the same in it.

Only `doit` as `Project.doit` forks it takes from here. A test that replaces a tool, or stops a process, starts one of its
own, which compiles. Failures are not kept: a test is about what is told of them.
"""

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
"""Of all that is kept from one session to the next."""
Compile = Callable[[ActionExecutor, tuple[str, ...], Path, str | None], Outcome]


def folder() -> Path:
    """Beside what is known of the machine, in pytest's cache: without it the tests only take longer."""
    return Path(os.environ["DISPATCHFLOW_CACHE"]).parent / "compiled"


def limit(kept: Path, largest_bytes: int = LARGEST_BYTES) -> None:
    """Remove the results that were made longest ago, until the others are not too large."""
    left = largest_bytes
    for entry in sorted(kept.glob("*/"), key=lambda path: path.stat().st_mtime, reverse=True):
        left -= sum(path.stat().st_size for path in _files(entry))
        if left < 0:
            shutil.rmtree(entry, ignore_errors=True)


def install(kept: Path) -> None:
    """In this process and those forked from it."""
    kept.mkdir(parents=True, exist_ok=True)
    ActionExecutor.run_compiler = keeping(ActionExecutor.run_compiler, kept)  # type: ignore[method-assign]


def keeping(compile_it: Compile, kept: Path) -> Compile:
    """`compile_it`, but what an earlier call of any process made of the same is copied."""

    def run_compiler(executor: ActionExecutor, argv: tuple[str, ...], scratch: Path, stdin: str | None) -> Outcome:
        name = _name(executor, argv, scratch, stdin)
        if name is None:
            return compile_it(executor, argv, scratch, stdin)
        with (kept / f"{name}.lock").open("w") as lock:  # who comes second waits for less than a compile takes
            fcntl.flock(lock, fcntl.LOCK_EX)
            with contextlib.suppress(
                OSError
            ):  # there is none yet; or the test's disk is full, as the compiler shall find
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
    """Of all that decides the result; None for tools outside this environment, and where a flag names a path."""
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
    """Appear in one step: a test may be killed at any moment."""
    with tempfile.TemporaryDirectory(dir=kept, ignore_cleanup_errors=True) as new:
        for path in made:
            to = Path(new, "made", path.relative_to(scratch))
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
        Path(new, "outcome.json").write_text(json.dumps(asdict(outcome)))
        Path(new).rename(kept / name)
