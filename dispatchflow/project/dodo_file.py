"""A user's dodo.py: what stands in it beside our `main()`, where its store is, and what all of the user's share."""

from __future__ import annotations

import os
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def namespace(dodo: Path) -> dict[str, Any]:
    """The dodo file's names. It is executed once more, with our `main()` doing nothing: tasks may stand below it."""
    return runpy.run_path(str(dodo), run_name="dodo")


def task_names(names: Mapping[str, Any]) -> list[str]:
    """Of those among them that define tasks of the user's own."""
    return sorted(name for name, of in names.items() if name.startswith("task_") or hasattr(of, "create_doit_tasks"))


def config(names: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = names.get("DOIT_CONFIG", {})
    return found


def default_words(names: Mapping[str, Any]) -> Sequence[str]:
    """What a command line without words stands for; none: everything."""
    return config(names).get("default_tasks") or []


def store_path(root: Path) -> Path:
    """Of the directory that has the dodo file."""
    return Path(os.environ.get("DISPATCHFLOW_STORE") or root / ".dispatchflow")


def cache_path() -> Path | None:
    """What all projects of the user share; None where the user has no home."""
    if given := os.environ.get("DISPATCHFLOW_CACHE"):
        return Path(given)
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the XDG specification: then it is to be ignored
        try:
            base = Path.home() / ".cache"
        except RuntimeError:
            return None
    return base / "dispatchflow"
