"""The report on a program names the sites with wrong results, and the sites that were not compared."""

from __future__ import annotations

import msgspec
import pytest

from dispatchflow.models.located import Located, ResultCheck, SiteCheck
from dispatchflow.models.site import Origin, Program, Site, SourceOperation
from dispatchflow.reports import located

RIGHT = ResultCheck(0, "within bound", 0.25, 0, 8, 0, (1, 2), "1.0", "1.0")
OFF = ResultCheck(0, "different", 1.5e3, 3, 8, 0, (1, 2), "0.0", "4.5")
FURTHER = ResultCheck(1, "different", 2.5e3, 1, 8, 0, (), "0.0", "9")
BITS = ResultCheck(0, "equal", None, 0, 8, 2)
DOUBT = ResultCheck(0, "mistrusted", 2.0, 1, 8, 0, (0, 0), "1.0", "1.1")
UNCOMPILED = SiteCheck(2, why="it does not compile for the reference: no f16", uncompiled=True)
LOST = SiteCheck(4, why="not captured: it is not executed in this call")


def program(count: int) -> Program:
    operation = SourceOperation(1, "linalg.matmul", "product", "net.mlir:5:8")
    sites = (Site(n, "main", False, "exe", f"kernel_{n}", 0, n, (Origin(1, "location"),)) for n in range(1, count + 1))
    return Program((operation,), tuple(sites))


def found(*checks: SiteCheck, whole: str | None = None) -> Located:
    return Located("net@vulkan", "llvm-cpu", program(len(checks)), checks, whole)


@pytest.mark.parametrize(
    ("checks", "whole", "says", "fails"),
    [
        ([SiteCheck(1, (RIGHT,)), SiteCheck(2, (BITS,))], None, "no site is wrong", False),
        ([SiteCheck(1, (DOUBT,))], None, "no site is wrong", False),
        (
            [SiteCheck(1, (RIGHT,))],
            "x",
            "no single site is wrong: accumulated error or the host program",
            False,
        ),
        ([SiteCheck(1, (RIGHT,)), SiteCheck(2, why="x")], None, "no site is wrong (not compared: site 2)", False),
        ([SiteCheck(1, (RIGHT,)), SiteCheck(2, (RIGHT, OFF))], None, "site 2 is wrong", True),
        (
            [SiteCheck(1, (OFF,)), SiteCheck(2, (RIGHT,)), SiteCheck(3, (OFF,))],
            "x",
            "site 1 is wrong, the first of 2; also wrong: site 3",
            True,
        ),
        ([SiteCheck(1, why="x")], None, "no site could be compared", True),
    ],
)
def test_the_finding_is_one_line(checks: list[SiteCheck], whole: str | None, says: str, fails: bool) -> None:
    made = found(*checks, whole=whole)
    assert made.conclusion == says
    assert made.fails is fails


def test_the_worst_result_is_a_wrong_one_with_the_largest_error() -> None:
    assert SiteCheck(1, (DOUBT, OFF, FURTHER, RIGHT)).worst == FURTHER
    assert SiteCheck(1, (RIGHT, BITS)).worst == RIGHT
    assert SiteCheck(1).worst is None
    assert [SiteCheck(1, (each,)).word for each in (OFF, DOUBT, RIGHT, BITS)] == ["WRONG", "doubtful", "right", "right"]


def test_a_report_names_the_first_wrong_site_and_why_others_were_not_compared() -> None:
    text = located.report(
        found(SiteCheck(1, (BITS,)), SiteCheck(2, (OFF,)), SiteCheck(3, (DOUBT,)), LOST, whole="8 elements are wrong"),
        ["file=my net.mlir", "target=vulkan"],
    )
    assert (
        text
        == """\
the case is wrong: 8 elements are wrong
site 2 is wrong
  kernel     kernel_2
  computes   linalg.matmul product net.mlir:5:8
  result 0   3 of 8 elements are wrong
  worst      [1, 2]: got 0.0, expected 4.5 (1.5e+03 × the tolerance)
  by itself  doit extract 'file=my net.mlir' target=vulkan sites=2 out=site2

sites of net@vulkan; each was run on llvm-cpu too, with the same operands
site    error                kernel
   1        0  right         kernel_1
   2  1.5e+03  WRONG         kernel_2
   3        2  doubtful      kernel_3
   4           not compared  kernel_4
column error: the largest error of all elements, in units of the tolerance
site 4 could not be compared: not captured: it is not executed in this call
site 1: 2 of 8 elements of result 0 depend on memory that the program never wrote; not compared"""
    )


def test_a_report_names_another_reference_for_the_sites_that_do_not_compile() -> None:
    one = found(SiteCheck(1, (RIGHT,)), UNCOMPILED)
    told = "site 2 could not be compared: it does not compile for the reference: no f16"
    assert located.report(one, []).endswith(told)
    other = msgspec.structs.replace(one, other="vulkan")
    assert located.report(other, []).endswith(f"{told}\nTry reference=vulkan, for which site 2 compiles.")
