"""`doit annotate` shows which machine instructions of a site take the time.

A site is a place of a program that launches a dispatch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dispatchflow import units
from dispatchflow.cases.case import Case
from dispatchflow.cli import output
from dispatchflow.cli.commands._base import QueryCommand, join_users, one_case
from dispatchflow.engine import annotate, provenance
from dispatchflow.engine.annotate import Annotation
from dispatchflow.errors import SpecError, escaped
from dispatchflow.models import site_choice
from dispatchflow.models.site import Program, Site
from dispatchflow.project import bundles
from dispatchflow.reports.table import aligned
from dispatchflow.tools import sampling

_SHOWN = 20


class AnnotateCommand(QueryCommand):
    name = "annotate"
    page = "docs/sites-alone.md"
    doc_purpose = (
        "show the hottest machine instructions of a site on this CPU, sampled with perf; "
        "usage: doit annotate CASE site=10 [top=20]"
    )
    groups = ("cases", "run", "annotate", "top", "out")

    def execute(self, params: Any, args: list[str]) -> int:
        workspace = self.app.workspace(self.groups)
        case = one_case(self.app, workspace, args, self.name)
        device = workspace.device(case.target, case.threads)
        if (why := annotate.refusal(case, device)) is not None:
            raise SpecError("these instructions cannot be sampled", {"case": case.name, "found": why})
        sampling.perf()  # raises if perf is missing, before anything is compiled
        join_users(workspace)
        traced = bundles.made_of(workspace, case, provenance.of_case(workspace.executor, case), "its sites")
        program = provenance.program_of(workspace.executor, traced.outputs)
        site = _chosen(case, program, workspace.values.get("site"))
        made = annotate.annotate(workspace.executor, case, device, site.export)
        twins = [each.number for each in program.sites if each.export == site.export and each is not site]
        text = escaped("\n".join(_lines(case, site, twins, made, workspace.values.get("top", _SHOWN))))
        output.say_or_write(text, workspace.values.get("out"))
        return 0


def _chosen(case: Case, program: Program, word: str | None) -> Site:
    if word is not None or len(program.sites) < 2:
        return site_choice.named(program, word or "1", case.name)
    shown = ", ".join(f"{site.number} {site.export}" for site in program.sites[:10])
    facts = {"sites": f"{shown}{' …' if len(program.sites) > 10 else ''}"}
    raise SpecError(f"{case.name} has {units.count(len(program.sites), 'site')}", facts, "Name one: site=1.")


def _lines(case: Case, site: Site, twins: Sequence[int], made: Annotation, top: int) -> Iterator[str]:
    function = made.function
    yield f"site {site.number} of {case.name}: {site.export}"
    rows = [["share", "address", "instruction"]]
    rows += [[f"{each.share:.1%}", f"{each.address:x}", each.text] for each in function.hottest(top)]
    yield aligned(rows, (True, True, False))
    shown = min(top, len(rows) - 1)
    part = sum(each.share for each in function.hottest(top))
    yield (
        f"{units.count(function.samples, 'sample')} in {units.count(len(function.instructions), 'instruction')}; "
        f"{part:.0%} in the {shown} shown"
    )
    if twins:
        yield f"other sites with this kernel, whose samples are among these: {', '.join(map(str, twins))}"
    word = {True: "the same as the case's own", False: "DIFFERS from the case's own", None: "not compared"}
    yield f"machine code: {word[made.same_code]} ({made.why})"
