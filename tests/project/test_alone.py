"""The time of a dispatch that runs alone comes from a measurement of its extracted module."""

from __future__ import annotations

from dispatchflow.project.alone import _alone


def test_the_cold_time_of_a_dispatch_is_that_of_the_call_without_the_call_s_own_time() -> None:
    row = {
        "case": "net.s01",
        "median_ns": 12.0,
        "dispatch_blocks_ns": [9.0, 10.0, 11.0],
        "later_low_ns": 6.0,
        "later_high_ns": 24.0,
        "dispatch_configurations": ["matmul 8x8"],
    }
    assert _alone(row, None).cold_ns is None
    found = _alone(row, {"median_ns": 20.0, "dispatch_blocks_ns": None})
    assert (found.median_ns, found.low_ns, found.high_ns, found.cold_ns) == (10, 5, 20, 18)
