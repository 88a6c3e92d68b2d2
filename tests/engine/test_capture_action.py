"""The key of a capture changes with everything that decides the captured bytes.

A capture contains the operands and results of the sites of a program (the places that launch a dispatch)."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from dispatchflow.engine import actions
from dispatchflow.engine.actions import Action, Call, Data
from dispatchflow.engine.capture import chosen_sites
from dispatchflow.errors import SpecError
from dispatchflow.iree.targets import Device
from dispatchflow.models.captured import Missing
from dispatchflow.models.site import Program, Site

CALL = Call("c" * 40, "main", Device("local-sync", 1, (0,), {"cpu": "x"}))
DATA = Data({"given": ("a" * 40,)}, ("4xf32",))


def action(call: Call = CALL, data: Data = DATA, flow: str = "f" * 40, dispatches: tuple[int, ...] = (0, 2),
           sites: tuple[int, ...] = (1, 3), execution: int | None = None) -> Action:  # fmt: skip
    return actions.capture(call, data, flow, dispatches, sites, execution)


def test_the_capture_key_contains_everything_that_decides_the_captured_bytes():
    others = [
        action(msgspec.structs.replace(CALL, code="d" * 40)),
        action(msgspec.structs.replace(CALL, function="other")),
        action(msgspec.structs.replace(CALL, device=Device("local-sync", 1, (0,), {"cpu": "y"}))),
        action(data=replace(DATA, digests={"given": ("b" * 40,)})),
        action(data=replace(DATA, parameters=(("model=w.irpa", "d" * 40),))),
        action(flow="e" * 40),
        action(dispatches=(0,), sites=(1,)),
        action(sites=(1, 4)),
        action(execution=1),
    ]
    assert len({each.key for each in (action(), *others)}) == len(others) + 1
    assert action().key == action().key
    assert action().stage == "capture"


def site(number: int, function: str = "main", at_load: bool = False, dispatch: int | None = 0) -> Site:
    return Site(number, function, at_load, "exe", "kernel", 0, number, dispatch=dispatch)


PROGRAM = Program(
    (), (site(1, "_const", at_load=True), site(2), site(3, "inner"), site(4, "other"), site(5, dispatch=None)),
    calls={"main": ("inner",)},
)  # fmt: skip


def test_all_sites_that_a_call_may_launch_are_captured():
    chosen, missing = chosen_sites(PROGRAM, "main", None, "net")
    assert [each.number for each in chosen] == [1, 2, 3]
    assert missing == [
        Missing(4, None, "a call of main does not launch it: other does"),
        Missing(5, None, "the compiler made it after phase flow"),
    ]


def test_chosen_sites_are_captured_once_and_must_exist():
    chosen, missing = chosen_sites(PROGRAM, "main", [3, 2, 3], "net")
    assert ([each.number for each in chosen], missing) == ([3, 2], [])
    with pytest.raises(SpecError, match="there is no site 9"):
        chosen_sites(PROGRAM, "main", [2, 9], "net")
    assert chosen_sites(Program((), ()), "main", None, "net") == ([], [])
