"""`doit extract` writes sites of a case as modules of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatchflow import units
from dispatchflow.cases.case import Case
from dispatchflow.cli.commands._base import QueryCommand, join_users
from dispatchflow.errors import SpecError, escaped
from dispatchflow.project.workspace import Workspace
from dispatchflow.stages import SITES, cases_named

if TYPE_CHECKING:
    from dispatchflow.project.bundles import Written

_FORM = "doit extract CASE [sites=1,10] out=DIR"
_SHOWN = 5


class ExtractCommand(QueryCommand):
    name = "extract"
    doc_purpose = "write sites of a case as modules of their own; usage: doit extract CASE [sites=1,10] out=DIR"
    groups = ("cases", "run", "sites", "limit", "out", "replay")

    def execute(self, params: Any, args: list[str]) -> int:
        from dispatchflow.project import bundles

        workspace = self.app.workspace(self.groups)
        if "out" not in workspace.values:
            raise SpecError("extract needs the folder to write", {"form": _FORM})
        out = Path(workspace.values["out"])
        bundles.check(out)
        case = self._case(workspace, args)
        join_users(workspace)
        made = bundles.written(workspace, case, workspace.values.get("sites"), out)
        print(escaped("\n".join(_lines(made))))
        return 0

    def _case(self, workspace: Workspace, words: Sequence[str]) -> Case:
        """Return the case that the words name, with or without a stage; without words the only one.

        Raises:
            NothingMatched: there is no such case.
            SpecError: there are several, or the case is skipped.
        """
        named = [word if cases_named(word) else f"{SITES}:{word}" for word in words] or [SITES]
        selection = self.app.select(workspace, named, ())
        cases = list(selection.last_stage())
        if len(cases) == 1:
            return cases[0]
        if cases:
            facts = {"cases": ", ".join(case.name for case in cases[:_SHOWN]), "number": len(cases), "form": _FORM}
            raise SpecError("extract takes one case", facts, "Name one of them.")
        if selection.skips:
            skip = next(iter(selection.skips))
            raise SpecError("the case is skipped", {"case": skip.name, "reason": skip.reason})
        raise SpecError("there are no cases", {"form": _FORM}, "Name a case, or describe one: file=net.mlir threads=1.")


def _lines(made: Written) -> Iterator[str]:
    """Yield a line for each module that was written, then what to do with them."""
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
    if made.without:
        numbers = ", ".join(map(str, made.without))
        yield f"site {numbers}: no module, because the compiler added the dispatch after all others were formed"
    yield f"\nTo verify and measure them: doit specs={made.folder} 'profile:*'"
    yield f"With IREE's tools only: sh {made.folder}/repro.sh run"
