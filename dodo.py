"""The command line of this directory is dispatchflow's; `check` and `test` are our own tasks beside it."""

import sys
from pathlib import Path

from dispatchflow import main

TOOLS = Path(sys.executable).parent
CHECKS = {
    "format": f"{TOOLS}/ruff format --check .",
    "lint": f"{TOOLS}/ruff check .",
    "types": f"{TOOLS}/mypy",
    "imports": f"{TOOLS}/lint-imports --no-cache",
    "fast_tests": f"{TOOLS}/pytest -n auto -m 'not iree and not slow'",
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
    return {"actions": [f"{TOOLS}/pytest -n auto --dist loadfile -m 'iree and not slow'"], "verbosity": 2}


def task_check_all():
    """everything that the registries hold, compiled and verified; minutes, goes on where it was stopped"""
    return {"actions": [f"{TOOLS}/python tests/check_all.py"], "verbosity": 2}


main()
