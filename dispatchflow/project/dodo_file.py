"""Read a user's dodo.py, and find the project's store and the cache folder that all projects share."""

from __future__ import annotations

import os
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def namespace(dodo: Path) -> dict[str, Any]:
    """Return the names that the file dodo.py defines, with their values.

    The file calls `main()`, which uses this function. Tasks that the file defines after this call are not
    known yet. Therefore the file is executed a second time. During this second execution, `main()` does nothing."""
    return runpy.run_path(str(dodo), run_name="dodo")


def task_names(names: Mapping[str, Any]) -> list[str]:
    return sorted(name for name, of in names.items() if name.startswith("task_") or hasattr(of, "create_doit_tasks"))


def config(names: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = names.get("DOIT_CONFIG", {})
    return found


def default_words(names: Mapping[str, Any]) -> Sequence[str]:
    """Return the words that are used if the command line has none: `default_tasks` of DOIT_CONFIG."""
    return config(names).get("default_tasks") or []


def store_path(root: Path) -> Path:
    """Return the path of the store; `root` is the directory of the dodo file."""
    return Path(os.environ.get("DISPATCHFLOW_STORE") or root / ".dispatchflow")


def cache_path() -> Path | None:
    """Return the cache folder, which all projects of the user share.

    Returns None if the user has no home directory."""
    if given := os.environ.get("DISPATCHFLOW_CACHE"):
        return Path(given)
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the XDG specification says to ignore such a value
        try:
            base = Path.home() / ".cache"
        except RuntimeError:
            return None
    return base / "dispatchflow"
