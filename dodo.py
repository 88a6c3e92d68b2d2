"""Define tasks for developers, such as `check` and `test`, in addition to dispatchflow's commands."""

import os
import sys
from pathlib import Path

from dispatchflow import main

TOOLS = Path(sys.executable).parent
# Without bytecode each worker spends seconds on compiling the tests.
PYTEST = f"env -u PYTHONDONTWRITEBYTECODE {TOOLS}/pytest"
CORES = len(os.sched_getaffinity(0))
CHECKS = {
    "format": f"{TOOLS}/ruff format --check .",
    "lint": f"{TOOLS}/ruff check .",
    "types": f"{TOOLS}/mypy",
    "imports": f"{TOOLS}/lint-imports --no-cache",
    "prose": f"{TOOLS}/python tests/support/prose.py",
    # One worker more than cores: some tests wait for locks. Files are not kept together: a few hold most of the work.
    "fast_tests": f"{PYTEST} -n {CORES + 1} --dist worksteal -m 'not iree and not slow'",
}


def task_check():
    """Check format, lint, types, import contracts and prose, and run the fast tests."""
    for name, command in CHECKS.items():
        yield {"name": name, "actions": [command], "verbosity": 2}


def task_docs():
    """Write docs/operations.md and docs/shapes.md from the code that defines operations and shapes."""
    pages = ("operations", "shapes")
    return {"actions": [f"{TOOLS}/python -m dispatchflow.reports.{page} > docs/{page}.md" for page in pages]}


def task_test():
    """Run the tests that need the real compiler or a device, except the slow ones."""
    # More workers than cores: tests also wait for processes, locks and limits. Tests of one file stay together, because
    # they share its fixtures, until a worker has nothing left to do.
    together = f"-n {5 * CORES // 2} --dist worksteal -m 'iree and not slow'"
    # Together they load the machine. A test that failed (exit code 1) is run again alone, and must pass then.
    alone = f"test $? -eq 1 && {PYTEST} --last-failed -m 'iree and not slow'"
    return {
        "actions": [f"export DISPATCHFLOW_TESTS_SHORT_MEASUREMENTS=1; {PYTEST} {together} || {{ {alone}; }}"],
        "verbosity": 2,
    }


def task_slow():
    """Run the tests that are marked as slow; `.ci/nightly` does so every night."""
    return {"actions": [f"{PYTEST} -n {CORES + 1} --dist worksteal -m slow"], "verbosity": 2}


def task_check_all():
    """Compile and verify combinations of all operations, types, layouts, options, tunings and targets.

    This takes minutes. After an interruption, the next call continues."""
    return {"actions": [f"{TOOLS}/python tests/check_all.py"], "verbosity": 2}


main()
