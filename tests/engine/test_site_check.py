"""The key of a comparison contains everything that decides the outcome of the comparison.

The results of a dispatch in a user's program are compared with the results of a reference. Elements that the program
never wrote are undefined. The comparison replaces them by zeros."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np

from dispatchflow.engine.actions import Call
from dispatchflow.engine.site_check import Operands, action, without
from dispatchflow.iree.targets import Device

CALL = Call("c" * 40, "main", Device("local-sync", 1, (0,), {"cpu": "x"}))
OPERANDS = Operands((("4xf32", "a" * 40), ("=5", "b" * 40)), (("4xf32", "d" * 40),), {})


def test_the_comparison_key_contains_everything_that_decides_the_comparison() -> None:
    others = [
        action(msgspec.structs.replace(CALL, code="e" * 40), OPERANDS),
        action(msgspec.structs.replace(CALL, device=Device("local-sync", 1, (0,), {"cpu": "y"})), OPERANDS),
        action(CALL, replace(OPERANDS, arguments=(("4xf32", "e" * 40), ("=5", "b" * 40)))),
        action(CALL, replace(OPERANDS, arguments=(("4xf32", "a" * 40), ("=6", "b" * 40)))),
        action(CALL, replace(OPERANDS, results=(("4xf32", "e" * 40),))),
        action(CALL, replace(OPERANDS, results=(("4xi32", "d" * 40),))),
        action(CALL, replace(OPERANDS, undefined={0: "e" * 40})),
    ]
    assert len({each.key for each in (action(CALL, OPERANDS), *others)}) == len(others) + 1
    assert action(CALL, OPERANDS).key == action(CALL, OPERANDS).key


def test_undefined_elements_become_zeros() -> None:
    content = np.array([1.5, 2.5, 3.5], np.float32).tobytes()
    assert np.frombuffer(without(content, b"\0\1\0"), np.float32).tolist() == [1.5, 0.0, 3.5]
