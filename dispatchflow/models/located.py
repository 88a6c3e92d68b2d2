"""Decide which sites of a program are wrong, from a comparison of each site with a reference.

A site is a place of the program that launches a dispatch."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dispatchflow.models.site import Program, Site

WRONG, DOUBTFUL, RIGHT = "WRONG", "doubtful", "right"
"""The verdicts of a site: its error is above both tolerances, between them, or below both.

`verification/tolerances.py` explains why there are two tolerances."""

_HOST = "no single site is wrong: accumulated error or the host program"


class ResultCheck(msgspec.Struct, frozen=True):
    """One result of a site, compared with the result that the reference computes from the same operands."""

    result: int
    word: str
    """The verdict, one of `verification.verdict_words.VERIFICATIONS`."""
    error: float | None
    """The largest error divided by the tolerance; None if bits are compared."""
    wrong: int
    """The number of elements that are not as expected."""
    elements: int
    undefined: int = 0
    """The number of elements that are not compared, since they depend on memory that was never written."""
    index: tuple[int, ...] = ()
    """The index of the worst element in the tensor."""
    got: str | None = None
    expected: str | None = None

    @property
    def severity(self) -> tuple[bool, float, int]:
        """A number that is larger for a worse result; it sorts the results of a site."""
        return self.word == "different", self.error or 0.0, self.wrong


class SiteCheck(msgspec.Struct, frozen=True):
    """A site, and the comparison of each of its results."""

    site: int
    results: tuple[ResultCheck, ...] = ()
    why: str | None = None
    """The reason why the site is not compared; None if it is."""
    uncompiled: bool = False
    """Whether this reason is that the site does not compile for the reference."""

    @property
    def worst(self) -> ResultCheck | None:
        """The worst result; None if none is compared."""
        return max(self.results, key=lambda each: each.severity, default=None)

    @property
    def word(self) -> str | None:
        """The verdict, `WRONG`, `doubtful` or `right`; None if the site is not compared."""
        words = {each.word for each in self.results}
        if self.why is not None or not words:
            return None
        return WRONG if "different" in words else DOUBTFUL if "mistrusted" in words else RIGHT


class Located(msgspec.Struct, frozen=True):
    """The comparison of each site of a case with the results of the target `reference`.

    A site is a place of the program that launches a dispatch."""

    case: str
    reference: str
    """The name of the target that computed the expected results."""
    program: Program
    checks: tuple[SiteCheck, ...]
    """The checks of the sites, in order of execution."""
    whole: str | None = None
    """The reason why the case's own results are wrong; None if they are right or were not verified."""
    other: str | None = None
    """Another reference, for which the first of the uncompiled sites compiles; None if there is none."""

    @property
    def wrong(self) -> tuple[SiteCheck, ...]:
        return tuple(check for check in self.checks if check.word == WRONG)

    @property
    def uncompared(self) -> tuple[SiteCheck, ...]:
        return tuple(check for check in self.checks if check.word is None)

    @property
    def uncompiled(self) -> tuple[SiteCheck, ...]:
        return tuple(check for check in self.checks if check.uncompiled)

    @property
    def fails(self) -> bool:
        """Whether a site is wrong, or nothing was compared."""
        return bool(self.wrong) or len(self.uncompared) == len(self.checks)

    def site(self, number: int) -> Site:
        return next(site for site in self.program.sites if site.number == number)

    @property
    def conclusion(self) -> str:
        """One line of text that says which sites are wrong and which were not compared."""
        if wrong := self.wrong:
            first, others = wrong[0].site, [str(check.site) for check in wrong[1:]]
            also = f"; also wrong: site {', '.join(others)}" if others else ""
            return f"site {first} is wrong, the first of {len(wrong)}{also}" if others else f"site {first} is wrong"
        if self.fails:
            return "no site could be compared"
        found = _HOST if self.whole is not None else "no site is wrong"
        return f"{found} ({_not_compared(self.uncompared)})" if self.uncompared else found


def _not_compared(checks: Sequence[SiteCheck]) -> str:
    return f"not compared: site {', '.join(str(check.site) for check in checks)}"
