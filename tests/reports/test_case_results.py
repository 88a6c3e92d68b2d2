"""`doit show` prints a table with statistics and the first values of each result."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from dispatchflow.reports.case_results import table
from dispatchflow.verification.call_result import CallResult

BYTES = np.arange(16, dtype=np.uint8)


@pytest.mark.parametrize(
    ("type", "array", "cells"),
    [
        ("2x2xf32", np.array([[0, 1], [2, 3]], np.float32), "4 1 0 3 1.5 0 1 2 3"),
        ("8xi8", np.arange(-4, 4, dtype=np.int8), "8 1 -4 3 -0.5 -4 -3 -2 -1 0 1 …"),
        ("2xi64", np.array([2**62, 2**62 + 1]), f"2 0 {2**62} {2**62 + 1} 4.61169e+18 {2**62} {2**62 + 1}"),
        ("3xf32", np.array([np.nan, -np.inf, 2], np.float32), "1 of 3 0 2 2 2 nan -inf 2"),
        ("2xf32", np.array([np.nan, np.inf], np.float32), "0 0 nan inf"),
        ("2xbf16", np.array([1.5, -2], ml_dtypes.bfloat16), "2 0 -2 1.5 -0.25 1.5 -2"),
        ("2xi4", np.array([7, -8], ml_dtypes.int4), "2 0 -8 7 -0.5 7 -8"),
        ("2xi1", np.array([True, False]), "2 1 0 1 0.5 1 0"),
        ("0xf32", np.empty(0, np.float32), "0 0"),
        ("i32", np.asarray(np.int64(-7)), "1 0 -7 -7 -7 -7"),
        ("f16", None, "the runtime has no numbers of this type"),
        ("2xcomplex<f32>", BYTES, "bytes 00 01 02 03 04 05 06 07 08 09 0a 0b"),
    ],
)
def test_a_result_is_shown_by_its_statistics_and_first_values(type, array, cells):
    header, line = table([CallResult(type, array, is_bytes=array is BYTES)]).splitlines()
    assert header.split()[:2] == ["result", "type"]
    assert line.split() == ["0", type, *cells.split()]
