"""Divide operands by the powers of two with which the verification recipe `exact` multiplied them.

A recipe is a way to make inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dispatchflow.operations import Operation
from dispatchflow.operations._range import powers, spans


def unscaled(operation: Operation, operands: Sequence[Any]) -> list[Any]:
    """Divide each line of the operands by the power of two with which the recipe multiplied the line.

    A line is, for example, a row of a matrix. Floats become float64, integers int64."""
    found = []
    for operand, span, values in zip(operation.operands(), spans(operation), operands, strict=True):
        if not operand.type.element.is_float:
            found.append(values.astype(np.int64))
        else:
            scales = powers(operand.type.shape, operand.lines, span) if any(span) else 1.0
            found.append(values.astype(np.float64) / scales)
    return found
