"""Divide operands by the powers of two with which the verification recipe `exact` multiplied them.

A recipe is a way to make inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dispatchflow.operations import Operation
from dispatchflow.operations._range import powers, raised, spans


def unscaled(operation: Operation, operands: Sequence[Any], recipe: str = "exact") -> list[Any]:
    """Divide each line of the operands by the power of two with which the recipe multiplied the line.

    A line is, for example, a row of a matrix. Floats become float64, integers int64."""
    found = []
    exponents = raised(operation) if recipe == "exact" else [0] * len(operands)
    for operand, span, exponent, values in zip(
        operation.operands(), spans(operation), exponents, operands, strict=True
    ):
        if not operand.type.element.is_float:
            found.append(values.astype(np.int64))
        else:
            scales = powers(operand.type.shape, operand.lines, span) if any(span) else 1.0
            found.append(values.astype(np.float64) / scales / 2.0**exponent)
    return found
