"""After failures, a run of many modules prints a table of the verdicts and the reasons."""

from types import SimpleNamespace

import pytest

from dispatchflow.cases.module import File, Module
from dispatchflow.reports import verdicts

PROGRAM = Module(File("a.mlir", "0" * 64), "a", "main")


@pytest.fixture
def chains(monkeypatch):
    monkeypatch.setattr(verdicts, "verdict", lambda chain: chain.verdict)
    monkeypatch.setattr(verdicts, "reason", lambda chain: chain.reason)

    def some(count, verdict, reason=None, program=PROGRAM):
        case = SimpleNamespace(name=f"case_{verdict}".replace(" ", "_"), operation=program)
        return [SimpleNamespace(case=case, verdict=verdict, reason=reason)] * count

    return some


def test_many_modules_of_which_some_fail_are_counted_by_verdict_and_reason_above_the_last_line(chains):
    several = [error for i in range(7) for error in chains(1, "not compiled", f"error {'abcdefg'[i]}")]
    every = [*chains(30, "right"), *several, *chains(2, "wrong", "3 elements of result 0 are wrong; worst at [1]")]
    lines = verdicts.before_last_line("failed: x\n39 cases: up to date in ", every).splitlines()
    assert lines[0] == "failed: x" and lines[-1] == "39 cases: up to date in "
    assert [line.split("  ")[0] for line in lines[1:-1]] == ["verdict", "right", "wrong", *["not compiled"] * 6]
    assert lines[3].split() == ["wrong", "2", "N", "elements", "of", "result", "N", "are", "wrong", "case_wrong"]
    assert "2 other reasons" in lines[-2]


def test_the_table_of_verdicts_is_only_printed_for_many_modules_with_failures(chains):
    wrong = chains(1, "wrong", "no")
    for cases in (wrong * 20, chains(30, "right"), chains(30, "wrong", "no", program=object())):
        assert verdicts.before_last_line("done in ", cases) == "done in "
    assert verdicts.before_last_line("done in ", wrong * 21) != "done in "
