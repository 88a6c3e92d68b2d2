"""`doit known write=FILE` writes entries that also match the same failure with other numbers.

For example, an entry for `3 elements of result 0 are wrong` matches `17 elements of result 1 are wrong`.
"""

import re
import tomllib
from pathlib import PurePath
from types import SimpleNamespace

import pytest

from dispatchflow.errors import SpecError
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


def chain(name, why=None, stage="verify", passed=False):
    """Return the state of a case.

    If `why` is given, the case failed at `stage` for this reason. Otherwise, the case passed if `passed` is True, and
    was not tried if it is False."""
    failure = SimpleNamespace(stage=stage, why=why) if why else None
    return SimpleNamespace(case=SimpleNamespace(name=name), failure=failure, made=lambda stage: passed)


def test_the_reason_of_an_entry_holds_for_each_of_its_cases():
    many, one = (
        "11 elements of result 0 are wrong; worst at [0]: got 4.76",
        "1 element of result 0 is wrong; worst at [2]",
    )
    text, _ = known_failures.entries([chain("a", many), chain("b", one)], "3.13.0", (), ())
    (entry,) = tomllib.loads(text)["known_failure"]
    assert entry["match"]["case"] == ["a", "b"]
    assert entry["reason"] == "N elements of result N are wrong"


def test_a_file_written_again_keeps_the_cases_about_which_nothing_new_is_known():
    crash, wrong = "compile failed: crash", "2 elements of result 0 are wrong"
    failed = [chain(name, crash, "compile") for name in ("fixed", "other", "away")]
    failed += [chain("[still]", wrong), chain("untried", wrong), chain("changes", wrong)]
    first, kept = known_failures.entries(failed, "3.13.0", (), failed)
    assert kept == 0

    selected = [chain("fixed", passed=True), chain("[still]", wrong), chain("untried"), chain("changes", crash, "emit")]
    again = [chain for chain in selected if chain.failure]
    text, kept = known_failures.entries(
        again, "3.13.0", known_failures.old_entries(first, PurePath("k.toml")), selected
    )
    assert kept == 3
    cases = [(entry["stage"], entry["match"]["case"]) for entry in tomllib.loads(text)["known_failure"]]
    assert cases == [
        ("compile", ["other", "away"]), ("verify", ["[[]still]", "untried"]), ("emit", ["changes"])
    ]  # fmt: skip
    assert known_failures.entries(failed, "3.13.0", known_failures.old_entries(first, PurePath()), failed)[0] == first


ENTRY = "\n[[known_failure]]\nmatch = 'a'\nstage = 'emit'\nmessage = 'x'\nreason = 'y'\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ENTRY, "begins otherwise than"),
        (f"{known_failures.HEAD}{ENTRY}some = true\n", "k.toml:2, known_failure"),
        (f"{known_failures.HEAD}{ENTRY.replace('match =', 'match.target =')}", "k.toml:2, known_failure"),
        (f"{known_failures.HEAD}{ENTRY}[[sweep]]\n", "sweep"),
        (f"{known_failures.HEAD}\n[[known", "is not TOML"),
    ],
)
def test_a_file_with_something_that_would_be_lost_is_not_replaced(text, said):
    assert known_failures.old_entries(f"{known_failures.HEAD}{ENTRY}", PurePath("k.toml"))
    with pytest.raises(SpecError, match=said):
        known_failures.old_entries(text, PurePath("k.toml"))
