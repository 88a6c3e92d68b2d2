"""`doit extract` writes each site of a case as a separate module.

A site is a place of a program that launches a dispatch.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatchflow import units
from dispatchflow.cli.commands._base import QueryCommand, join_users, one_case
from dispatchflow.errors import SpecError, escaped

if TYPE_CHECKING:
    from dispatchflow.project.bundles import Written

_FORM = "doit extract CASE [sites=1,10] out=DIR"
_SHOWN = 5


class ExtractCommand(QueryCommand):
    name = "extract"
    page = "docs/sites-alone.md"
    doc_purpose = "write sites of a case as modules of their own; usage: doit extract CASE [sites=1,10] out=DIR"
    groups = ("cases", "run", "sites", "limit", "execution", "out", "replay")

    def execute(self, params: Any, args: list[str]) -> int:
        from dispatchflow.project import bundles

        workspace = self.app.workspace(self.groups)
        if "out" not in workspace.values:
            raise SpecError("extract needs the folder to write", {"form": _FORM})
        out = Path(workspace.values["out"])
        bundles.check(out)
        case = one_case(self.app, workspace, args, self.name)
        join_users(workspace)
        made = bundles.written(workspace, case, workspace.values.get("sites"), out)
        print(escaped("\n".join(_lines(made))))
        return 0


def _lines(made: Written) -> Iterator[str]:
    sweeps = made.bundle.sweeps
    width = max((len(sweep.name) for sweep in sweeps), default=0) + len(".mlir")
    for sweep in sweeps:
        size = units.size((made.folder / f"{sweep.name}.mlir").stat().st_size)
        same = f", also site {', '.join(map(str, sweep.same))}" if sweep.same else ""
        yield f"{f'{sweep.name}.mlir':<{width}}  {size:>8}  {sweep.site.export}{same}"
    reasons: dict[str, list[str]] = {}
    for sweep in sweeps:
        if sweep.why:
            reasons.setdefault(sweep.why, []).append(sweep.name)
    for why, names in reasons.items():
        yield f"{', '.join(names[:_SHOWN])}{', …' if len(names) > _SHOWN else ''}: {why}"
    if made.bundle.left_out:
        yield f"the tuning {made.bundle.left_out} reads a file and is left out of the spec"
    if made.bundle.wrong:
        from dispatchflow.models.bundle import WRONG

        yield WRONG
    if made.without:
        numbers = ", ".join(map(str, made.without))
        yield f"site {numbers}: no module, because the compiler added the dispatch after all others were formed"
    yield f"\nTo verify and measure them: doit {shlex.quote(f'specs={made.folder}')} 'profile:*'"
    yield f"With IREE's tools only: sh {shlex.quote(f'{made.folder}/repro.sh')} run"
