"""Show which changes of a module change its code digest: `python -m benchmarks.digests`.

The code digest is the hash of all entries of a vmfb. The command prints the first table of docs/digest-study.md.
With `--against 3.12.0`, it prints the second table, which compares two IREE releases."""

from __future__ import annotations

import argparse
import io
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.digest_variants import BACKENDS, VARIANTS, CompileFailed, Study, module
from dispatchflow.iree import vmfb
from dispatchflow.iree.release import syntax_of
from dispatchflow.planning import parser, plan
from dispatchflow.store.store import Store


def moved(before: bytes, after: bytes) -> str:
    """Return the parts in which two vmfb files differ, such as `host, code`; "" if no part differs.

    The parts are `host` (the host program), `data` (the constants) and `code` (the executables)."""
    kinds: dict[str, list[dict[str, bytes]]] = {"host": [], "data": [], "code": []}
    for content in (before, after):
        entries = _entries(content)
        for kind in kinds:
            kinds[kind].append({name: data for name, data in entries.items() if _kind(name) == kind})
    return ", ".join(kind for kind, (one, other) in kinds.items() if one != other)


def _entries(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _kind(entry: str) -> str:
    return "host" if entry == "module.fb" else "data" if entry.startswith("_const") else "code"


def change(before: bytes, after: bytes) -> str:
    """Return the parts in which two vmfb files differ (see `moved`); `=` if their code digests are equal."""
    same = vmfb.inspect(before).code_digest == vmfb.inspect(after).code_digest
    assert same == (not moved(before, after)), "the digest is of the entries, all of them"
    return "=" if same else moved(before, after)


def programs(study: Study) -> dict[str, str]:
    """Return the modules whose code is compared between two IREE releases: a dict from name to MLIR."""
    words: dict[str, dict[str, Any]] = {
        "matmul f32": {"dtype": "f32"},
        "matmul f32, both transposed": {"dtype": "f32", "layout": "nn"},
        "matmul f16 → f32": {"dtype": "f16,f16->f32"},
        "matmul bf16 → f32": {"dtype": "bf16"},
        "matmul i8 → i32": {"dtype": "i8"},
    }
    syntax = syntax_of(study.toolchain.version)
    found = {"this study's module": module(), "with min for max": module(body="minimumf")}
    for name, word in words.items():
        sweep = parser.sweep({"operation": "matmul", "m": 16, "n": 32, "k": 48, "target": "llvm-cpu", **word}, "here")
        (case,) = plan.expand([sweep]).cases
        found[name] = case.dispatch.module(syntax)
    return found


# --- tables


def table(corner: str, rows: Mapping[str, Sequence[str]]) -> Iterable[str]:
    yield f"| {corner} | {' | '.join(BACKENDS)} |"
    yield f"{'|---' * (corner.count('|') + 1 + len(BACKENDS))}|"
    for name, cells in rows.items():
        yield f"| {name} | {' | '.join(cells)} |"


def changes(study: Study) -> Iterable[str]:
    def cell(name: str, backend: str) -> str:
        variant = VARIANTS[name]
        return change(study.original(backend, variant.staged), study.compiled(variant.make(study, backend)))

    words = {True: "must move", False: "must stay", None: "may move"}
    rows = {f"{name} | {words[variant.moves]}": name for name, variant in VARIANTS.items()}
    return table("change | the digest", {row: _cells(partial(cell, name)) for row, name in rows.items()})


def releases(study: Study, other: Study) -> Iterable[str]:
    def cell(name: str, backend: str) -> str:
        return change(*(s.compiled(replace(s.base(backend), text=programs(s)[name])) for s in (other, study)))

    return table("module", {name: _cells(partial(cell, name)) for name in programs(study)})


def _cells(cell: Callable[[str], str]) -> list[str]:
    def tried(backend: str) -> str:
        try:
            return cell(backend)
        except CompileFailed as error:
            return f"not compiled: {error}".splitlines()[0][:60]

    with ThreadPoolExecutor(2) as workers:
        return list(workers.map(tried, BACKENDS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="RELEASE", help="compare with this release's code instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        study = Study(store)
        print("\n".join(releases(study, Study(store, options.against)) if options.against else changes(study)))


if __name__ == "__main__":
    main()
