"""Decide which sites of a program compute wrong results, by comparing each site with a reference.

A site is a place of the program that launches a dispatch. The reference is the same dispatch, compiled for another
target and called with the same operands."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dispatchflow.models.site import Program, Site

WRONG, DOUBTFUL, RIGHT = "WRONG", "doubtful", "right"
"""The verdicts of a site.

There are two tolerances for the error of an element; `verification/tolerances.py` explains why. A site is wrong if an
error is above both tolerances, doubtful if an error is between them, and right if all errors are below both."""

_HOST = "no single site is wrong: accumulated error or the host program"


class ResultCheck(msgspec.Struct, frozen=True):
    """The comparison of one result of a site with the result of the reference."""

    result: int
    word: str
    """The verdict, one of `verification.verdict_words.VERIFICATIONS`."""
    error: float | None
    """The largest quotient of an element's error and the smaller of the element's two tolerances.

    None if the results are compared bit by bit. `verification/tolerances.py` explains the two tolerances."""
    wrong: int
    """The number of elements that are not as expected."""
    elements: int
    undefined: int = 0
    """The number of elements that are not compared, since they depend on memory that was never written."""
    index: tuple[int, ...] = ()
    """The index, in the tensor, of the element that is farthest from what is expected."""
    got: str | None = None
    expected: str | None = None

    @property
    def severity(self) -> tuple[bool, float, int]:
        """A sort key: the worse this result of the site is, the larger the key."""
        return self.word == "different", self.error or 0.0, self.wrong


class SiteCheck(msgspec.Struct, frozen=True):
    """The comparison of each result of a site with a reference."""

    site: int
    results: tuple[ResultCheck, ...] = ()
    why: str | None = None
    """The reason why the site is not compared; None if it is compared."""
    uncompiled: bool = False
    """True if the site does not compile for the target of the reference, and is therefore not compared."""

    @property
    def worst(self) -> ResultCheck | None:
        """The comparison of the site's worst result; None if no result is compared."""
        return max(self.results, key=lambda each: each.severity, default=None)

    @property
    def word(self) -> str | None:
        """The verdict of the site: `WRONG`, `doubtful` or `right`; None if the site is not compared."""
        words = {each.word for each in self.results}
        if self.why is not None or not words:
            return None
        return WRONG if "different" in words else DOUBTFUL if "mistrusted" in words else RIGHT


class Located(msgspec.Struct, frozen=True):
    """The comparison of the results of a case's sites with expected results from a reference."""

    case: str
    reference: str
    """The name of the target that computed the expected results."""
    program: Program
    checks: tuple[SiteCheck, ...]
    """The comparisons with the reference, one for each requested site, in program order."""
    whole: str | None = None
    """The reason why the results of the case are wrong; None if they are right or were not verified."""
    other: str | None = None
    """The name of another target that can serve as the reference; None if no target is needed or found.

    Another target is needed if some sites do not compile for the present reference. The first of these sites compiles
    for the other target, and this machine has a device for it."""

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
        """True if a site is wrong, or no site could be compared."""
        return bool(self.wrong) or len(self.uncompared) == len(self.checks)

    def site(self, number: int) -> Site:
        return next(site for site in self.program.sites if site.number == number)

    @property
    def conclusion(self) -> str:
        """One line about the wrong sites. If no site is wrong, it says which sites were not compared."""
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
