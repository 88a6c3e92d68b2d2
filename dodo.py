"""The command line of this directory is dispatchflow's; `check` and `test` are our own tasks beside it."""

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
    # One more than cores: some wait for locks and limits. Files are not kept together: a few hold most of the work.
    "fast_tests": f"{PYTEST} -n {CORES + 1} --dist worksteal -m 'not iree and not slow'",
}


def task_check():
    """format, lint, types, import contracts, fast tests"""
    for name, command in CHECKS.items():
        yield {"name": name, "actions": [command], "verbosity": 2}


def task_docs():
    """writes docs/operations.md from the registry, and docs/shapes.md"""
    pages = ("operations", "shapes")
    return {"actions": [f"{TOOLS}/python -m dispatchflow.reports.{page} > docs/{page}.md" for page in pages]}


def task_test():
    """the tests with the real compiler and real devices, but the slow ones; the others are in check"""
    # More than cores: most of them wait, for processes, locks and limits. Neighbours stay together, which share what
    # their file makes once, until a worker has nothing left to do.
    together = f"-n {3 * CORES} --dist worksteal -m 'iree and not slow'"
    # Together they load the machine. What failed there (exit code 1) is run again by itself, and must pass then.
    alone = f"test $? -eq 1 && {PYTEST} --last-failed -m 'iree and not slow'"
    return {
        "actions": [f"export DISPATCHFLOW_TESTS_NO_PAUSES=1; {PYTEST} {together} || {{ {alone}; }}"],
        "verbosity": 2,
    }


def task_check_all():
    """everything that the registries hold, compiled and verified; minutes, goes on where it was stopped"""
    return {"actions": [f"{TOOLS}/python tests/check_all.py"], "verbosity": 2}


main()
