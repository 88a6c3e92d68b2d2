"""`doit annotate` shows which machine instructions of a site take the time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dispatchflow import units
from dispatchflow.cases.case import Case
from dispatchflow.cli import output
from dispatchflow.cli.commands._base import QueryCommand, join_users, one_case
from dispatchflow.engine import annotate, provenance
from dispatchflow.engine.annotate import Annotation
from dispatchflow.errors import SpecError, ToolError, escaped, suggestion
from dispatchflow.models.site import Site
from dispatchflow.project.workspace import Workspace
from dispatchflow.reports.table import aligned
from dispatchflow.tools import sampling

_SHOWN = 20


class AnnotateCommand(QueryCommand):
    name = "annotate"
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
        sampling.perf()  # said before anything is compiled
        join_users(workspace)
        sites = _sites(workspace, case)
        site = _chosen(case, sites, workspace.values.get("site"))
        made = annotate.annotate(workspace.executor, case, device, site.export)
        twins = [each.number for each in sites if each.export == site.export and each is not site]
        text = escaped("\n".join(_lines(case, site, twins, made, workspace.values.get("top", _SHOWN))))
        output.say_or_write(text, workspace.values.get("out"))
        return 0


def _sites(workspace: Workspace, case: Case) -> Sequence[Site]:
    """Return the sites of a case.

    Raises:
        ToolError: they are not known.
    """
    record = provenance.of_case(workspace.executor, case)
    if record is None or not record.ok:
        step = workspace.resolver.chain(case).failure
        reason = record.reason if record else step.why if step else "it was not compiled"
        raise ToolError(f"the sites of {case.name} are not known", {"found": reason})
    return provenance.program_of(workspace.executor, record.outputs).sites


def _chosen(case: Case, sites: Sequence[Site], word: str | None) -> Site:
    """Return the site of `site=`, or the only one.

    Raises:
        SpecError: there is no such site, or none is given and there are several.
    """
    if word is None and len(sites) == 1:
        return sites[0]
    for site in sites:
        if word in (str(site.number), site.export):
            return site
    shown = ", ".join(f"{site.number} {site.export}" for site in sites[:10])
    facts = {"sites": f"{len(sites)}: {shown}{' …' if len(sites) > 10 else ''}"}
    if word is None:
        raise SpecError(f"{case.name} has {units.count(len(sites), 'site')}", facts, "Name one: site=1.")
    raise SpecError(f"there is no site '{word}'", facts, suggestion(word, [site.export for site in sites]))


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
