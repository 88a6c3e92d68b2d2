"""A failure's message becomes a pattern, or a kind without values and numbers."""

import re
import tomllib
from types import SimpleNamespace

import pytest

from dispatchflow.reports import known_failures, verdicts

ILLEGAL = "compile failed: failed to legalize operation 'torch.operator' that was explicitly marked illegal: "


@pytest.mark.parametrize(
    ("reason", "other"),
    [
        (f'{ILLEGAL}%0 = "torch.operator"(%arg0) <{{name = "onnx.If"}}>', f'{ILLEGAL}%9 = "torch.operator"(%x)'),
        ("23 elements of result 0 are wrong; worst at [1, 2]: got -0.5, expected nan", None),
        ("3 elements of result 0 are wrong (of 4)", "17 elements of result 1 are wrong (of 9)"),
        ("11 elements of result 0 are wrong; worst at [1]", "1 element of result 0 is wrong; worst at [0, 0]"),
        ("1 element of result 0 is wrong", "11 elements of result 0 are wrong"),
        (
            '1 result byte is wrong on the set of inputs "exact"',
            '2 result bytes are wrong on the set of inputs "exact"',
        ),
        ("a.b*c[1] (failed)? $x^ | {y} \\ +", None),
        ("compile failed: error: \nsecond line", "compile failed: error: \nother"),
    ],
)
def test_a_pattern_matches_its_reason_and_the_same_error_with_other_values(reason, other):
    pattern = known_failures.pattern(reason)
    assert re.search(pattern, reason)
    assert re.search(pattern, "something else failed") is None
    assert other is None or re.search(pattern, other)


def test_a_kind_is_without_values_and_numbers():
    assert verdicts.kind(f"{ILLEGAL}%0 = x") == ILLEGAL.rstrip()
    for count in ("4 elements of result 0 are", "1 element of result 0 is"):
        assert verdicts.kind(f"{count} wrong; worst at [1]: got 3, expected 4") == "N elements of result N are wrong"


def failing(name, why, stage="verify"):
    failure = SimpleNamespace(stage=stage, why=why)
    return SimpleNamespace(case=SimpleNamespace(name=name), failure=failure)


def test_the_reason_of_an_entry_holds_for_each_of_its_cases():
    many, one = (
        "11 elements of result 0 are wrong; worst at [0]: got 4.76",
        "1 element of result 0 is wrong; worst at [2]",
    )
    (entry,) = tomllib.loads(known_failures.entries([failing("a", many), failing("b", one)], "3.13.0"))["known_failure"]
    assert entry["match"]["case"] == ["a", "b"]
    assert entry["reason"] == "N elements of result N are wrong"
