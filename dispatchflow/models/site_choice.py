"""Find the sites that a user requests by number or by the name of a kernel.

A site is a place of a program that launches a dispatch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from dispatchflow.errors import SpecError
from dispatchflow.models.site import Program, Site


def numbered(program: Program, numbers: Sequence[int] | None, case: str) -> list[Site]:
    """Return the sites with the given numbers, or all sites if `numbers` is None.

    Raises:
        SpecError: one of the numbers belongs to no site, or the program has no sites.
    """
    if not program.sites:
        raise SpecError("the program launches no dispatch", {"case": case})
    known = {site.number: site for site in program.sites}
    for number in numbers or ():
        if number not in known:
            nearest = known[min(known, key=lambda each: abs(each - number))]
            raise _unknown(str(number), nearest, program, case)
    return list(program.sites) if numbers is None else [known[number] for number in dict.fromkeys(numbers)]


def is_kernel(export: str, name: str) -> bool:
    """Return whether `name` is the kernel `export`, or a pattern such as `*softmax*` that matches it.

    The name may be written as CUDA, ROCm, RGP (AMD's profiler) or perf shows it."""
    return fnmatchcase(_plain(export), _plain(name))


def _plain(name: str) -> str:
    # RGP: `entryPoint = NAME`; perf: `+0x1f3`, ` [.]`; ROCm: `.kd`; CUDA and ROCm: `_` for characters such as `$`
    name = re.sub(r"^\s*entryPoint\s*=\s*", "", name)
    name = re.split(r"\+0x| \[|\(", name)[0].strip("\"' ").removesuffix(".kd")
    return re.sub(r"[^\w*?]", "_", name)


def named(program: Program, word: str, case: str) -> Site:
    """Return the site with the number `word`, or the first site whose kernel has the name `word`.

    `word` is a number if it consists of digits, and otherwise a name.

    Raises:
        SpecError: the program has no sites at all, or no such site.
    """
    if word.isdecimal() or not program.sites:
        return numbered(program, [int(word)] if word.isdecimal() else None, case)[0]
    for site in program.sites:
        if is_kernel(site.export, word):
            return site
    import difflib  # imported here because only error messages need it

    (kernel,) = difflib.get_close_matches(word, [site.export for site in program.sites], n=1, cutoff=0)
    raise _unknown(f"'{word}'", next(site for site in program.sites if site.export == kernel), program, case)


def _unknown(word: str, nearest: Site, program: Program, case: str) -> SpecError:
    facts = {"case": case, "sites": f"1 … {len(program.sites)}", "nearest": f"{nearest.number}, {nearest.export}"}
    return SpecError(f"there is no site {word}", facts, "doit 'sites:CASE' shows all.")
