"""Show which sites of a program give wrong results. A site is a place that launches a dispatch."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from dispatchflow import units
from dispatchflow.models import bundle
from dispatchflow.models.located import Located, ResultCheck, SiteCheck
from dispatchflow.reports.table import aligned


def report(found: Located, extract: Sequence[str]) -> str:
    """Return the report on a case: a conclusion, details of the first wrong site, and a table of sites.

    The details include a `doit extract` command for the wrong site. `extract` has the arguments of this command, except
    `sites=` and `out=`."""
    return "\n".join(_lines(found, extract))


def _lines(found: Located, extract: Sequence[str]) -> Iterator[str]:
    if found.whole is not None:
        yield f"the case is wrong: {found.whole}"
    yield found.conclusion
    if found.wrong:
        yield from _first(found, found.wrong[0], extract)
    yield ""
    yield f"sites of {found.case}; each was run on {found.reference} too, with the same operands"
    yield aligned([["site", "error", "", "kernel"], *(_row(found, check) for check in found.checks)],
                  (True, True, False, False))  # fmt: skip
    yield "column error: the largest error of all elements, in units of the tolerance"
    reasons: dict[str, list[str]] = {}
    for check in found.uncompared:
        reasons.setdefault(check.why or "it has no results", []).append(str(check.site))
    for why, sites in reasons.items():
        yield f"site {', '.join(sites)} could not be compared: {why}"
    if found.other is not None:
        yield f"Try reference={found.other}, for which site {found.uncompiled[0].site} compiles."
    for check in found.checks:
        for result in check.results:
            if result.undefined:
                part = f"{result.undefined:,} of {units.count(result.elements, 'element')} of result {result.result}"
                yield f"site {check.site}: {part} depend on memory that the program never wrote; not compared"


def _first(found: Located, check: SiteCheck, extract: Sequence[str]) -> Iterator[str]:
    site, worst = found.site(check.site), check.worst
    assert worst is not None
    rows = [("kernel", site.export)]
    rows += [("computes", text) for text in bundle.sources(found.program, site)]
    off = "is wrong" if worst.wrong == 1 else "are wrong"
    rows.append((f"result {worst.result}", f"{worst.wrong:,} of {units.count(worst.elements, 'element')} {off}"))
    if worst.got is not None:
        place = f"[{', '.join(map(str, worst.index))}]: " if worst.index else ""
        rows.append(("worst", f"{place}got {worst.got}, expected {worst.expected}{_times(worst)}"))
    words = ["doit", "extract", *extract, f"sites={check.site}", f"out={bundle_name(check.site)}"]
    rows.append(("by itself", shlex.join(words)))
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        yield f"  {label:<{width}}  {text}"


def bundle_name(number: int) -> str:
    """Return the name of the folder for an extracted site, such as `site3` for site number 3.

    The report prints this name in a command for the user: `doit extract … sites=3 out=site3`."""
    return f"site{number}"


def _times(worst: ResultCheck) -> str:
    return "" if worst.error is None else f" ({_number(worst.error)} × the tolerance)"


def _row(found: Located, check: SiteCheck) -> list[str]:
    word, worst = check.word, check.worst
    error = "" if worst is None or worst.error is None else _number(worst.error)
    if worst is not None and worst.error is None:
        error = "0" if worst.word == "equal" else "bits"
    return [str(check.site), error, word or "not compared", found.site(check.site).export]


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 1e308 else "no number"
