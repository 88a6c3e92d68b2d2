"""The functions of `import dispatchflow`: execute a command, read rows, list the cases of a spec.

import dispatchflow

assert dispatchflow.run("profile:matmul_*", directory="my_project") == 0
rows = dispatchflow.read("my_project/build/results")
print(rows.select(["case", "median_ns"]).to_pandas())
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatchflow.cases.case import Case
from dispatchflow.errors import SpecError, StoreError
from dispatchflow.iree.flags import quoted
from dispatchflow.operations import Operation
from dispatchflow.planning import plan
from dispatchflow.planning.sources import Sources
from dispatchflow.results import parquet
from dispatchflow.results.rows import file_of

if TYPE_CHECKING:
    import pyarrow as pa

_COMMAND = "from dispatchflow.cli.main import command; command()"
_WRITES = "doit profile writes build/results/, and doit sites writes build/sites/."
_OURS = "Name build/results, build/sites, or a file in them."
_PATIENCE_S = 10.0
"""The time in s for which `run` waits for the command to end after Ctrl-C.

If the command has not ended by then, `run` sends SIGINT to it."""


def run(*words: str, directory: str | os.PathLike[str] = ".") -> int:
    """Execute the command `dispatchflow WORDS` in a project's directory, as a separate process.

    The command's output goes to `sys.stdout` and `sys.stderr`, also in a notebook.

    Args:
        words: the words of the command line, without shell quotes: `"profile:matmul_*"`, `"target=vmvx"`.
        directory: the project's directory, which contains a dodo.py.

    Returns:
        The exit code (docs/specs.md); 0 is success. It is -N if signal N ended the command.

    Raises:
        SpecError: the directory has no dodo.py.
    """
    folder = Path(directory)
    if not (folder / "dodo.py").is_file():
        hint = "It has two lines: from dispatchflow import main, and main()."
        raise SpecError("there is no dodo.py here", {"looked in": folder.absolute()}, hint)
    streams = _streams()
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", _COMMAND, *words], cwd=folder, stdin=subprocess.DEVNULL, text=True,
        errors="backslashreplace", stdout=streams[0], stderr=streams[1],
    )  # fmt: skip
    try:
        out, err = child.communicate()
    except KeyboardInterrupt:  # a terminal sends SIGINT to the command too
        try:
            child.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
            child.wait()
        raise
    sys.stdout.write(out or "")
    sys.stderr.write(err or "")
    return child.returncode


def _streams() -> Sequence[int]:
    """Return the file descriptors of sys.stdout and sys.stderr.

    For a stream without a descriptor, such as a notebook's, return `subprocess.PIPE` instead."""
    found = []
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
            found.append(stream.fileno())
        except (OSError, ValueError, AttributeError):
            found.append(subprocess.PIPE)
    return found


def read(path: str | os.PathLike[str]) -> pa.Table:
    """Read Parquet files that dispatchflow wrote: the rows of cases or of sites, the oldest first.

    Args:
        path: `build/results` for cases, `build/sites` for sites, or a file in one of these directories. A site is a
            place in a program where a dispatch is launched.

    Returns:
        A table. docs/results.md describes the columns for cases, docs/models.md the columns for sites. A column that
        an older file does not have is null in its rows.

    Raises:
        StoreError: the path does not exist or has no rows, or a file cannot be read or was not written by
            dispatchflow.
    """
    import pyarrow as pa

    from dispatchflow.results.site_rows import SITE_ROWS

    place, found = Path(path), list[pa.Table]()
    try:
        if not place.exists():
            raise StoreError("there is no file or directory of rows here", {"path": place}, _WRITES)
        for part in sorted(place.glob("*.parquet")) if place.is_dir() else [place]:
            if (table := parquet.table(part, parquet.CASES, SITE_ROWS)) is not None:
                found.append(table)
    except (OSError, ValueError) as error:
        raise StoreError("these rows cannot be read", {"path": place, "found": error}) from error
    if not found and not place.is_dir():
        raise StoreError("this file was not written by dispatchflow", {"path": place}, _OURS)
    if not found:
        inside = place / "build" / "results"
        raise StoreError(
            "there are no rows here", {"looked in": place}, f"Did you mean '{inside}'?" if inside.is_dir() else _WRITES
        )
    table = pa.concat_tables(found, promote_options="default")
    missing = {SITE_ROWS.mark.encode(), parquet.CASES.mark.encode()}.isdisjoint(table.schema.metadata or {})
    if missing:
        raise StoreError("these rows are not dispatchflow's", {"path": place}, _OURS)
    ordered = table.append_column("_order", pa.array([number or 0 for number in table["number"].to_pylist()]))
    return ordered.sort_by([("_order", "ascending"), ("recorded_at", "ascending")]).drop_columns(["_order"])


def cases(spec: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the cases of a spec, without running them.

    Impossible combinations of the spec's values are left out.

    Args:
        spec: the text of a spec, or the path of a TOML file or of a directory of such files.

    Returns:
        One dict for each case, with these columns of docs/results.md: `case`, `operation`, `shape`, `element_types`,
        `layout`, `file`, `provider`, `tuning`, `flags`, `target`, `cache`, `tags`, and each size and option. It also
        has `threads`, which is None for one thread per core.

    Raises:
        SpecError: the spec is wrong or cannot be read.
    """
    text = isinstance(spec, str) and ("[[" in spec or "\n" in spec)
    sources = Sources(Path(), {} if text else {"specs": (os.fspath(spec),)}, None)
    found = plan.expand(sources.parsed(str(spec)) if text else sources.sweeps())
    return [_fields(case, found.tags[case]) for case in found.cases]


def _fields(case: Case, tags: Sequence[str]) -> dict[str, Any]:
    operation = case.operation
    chosen = dict(zip(operation.options, operation.chosen, strict=True)) if isinstance(operation, Operation) else {}
    return {
        "case": case.name,
        "operation": operation.name,
        **dict(zip(operation.dims, operation.sizes, strict=True)),
        **chosen,
        "shape": case.shape_name,
        "element_types": operation.element_types,
        "layout": operation.layout,
        "file": file_of(operation, ""),
        "provider": case.provider,
        "tuning": case.tuning.name if case.library is None else None,
        "flags": quoted(case.flags) if case.flags else None,
        "target": case.target.name,
        "threads": case.threads,
        "cache": case.cache,
        "tags": list(tags),
    }
