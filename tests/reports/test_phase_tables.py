"""The modules of two compiles are compared after each phase, in a table and as a unified diff."""

from __future__ import annotations

from difflib import unified_diff

import pytest

from dispatchflow.iree.phases import Phase
from dispatchflow.reports import phases

INPUT, FLOW = Phase(1, "input"), Phase(6, "flow")


@pytest.mark.parametrize("changed", (0, 2, 50, 99))
def test_a_difference_is_the_unified_one_with_its_lines_numbers(changed: int) -> None:
    one = [f"line {i}" for i in range(100)]
    other = [*one[:changed], "changed", "and one more", *one[changed + 1 :]]
    assert phases.difference(one, other, ("a", "b")) == "\n".join(unified_diff(one, other, "a", "b", lineterm=""))


@pytest.mark.parametrize("more", (["a"], ["b"], ["a", "a"], []))
def test_repeated_lines_are_compared_too(more: list[str]) -> None:
    one, other = ["a", "a", "b"], ["a", "a", *more, "b"]
    assert phases.difference(one, other, ("a", "b")) == "\n".join(unified_diff(one, other, "a", "b", lineterm=""))


def test_a_long_line_is_cut() -> None:
    assert "… (1001 characters)" in phases.difference(["x" * 1000], [], ("a", "b"))


def test_the_first_difference_is_a_phase() -> None:
    one, other = {INPUT: ["a"], FLOW: ["b"]}, {INPUT: ["a"], FLOW: ["c", "d"]}
    assert phases.first(one, one) is None and phases.first(one, other) == FLOW
    assert phases.comparison(one, other).splitlines()[1:] == [
        "    1  input  same         1     1",
        "    6  flow   differs      1     2",
    ]
