"""Make cases, to match them with entries of known failures."""

from __future__ import annotations

from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.iree.targets import TARGETS
from dispatchflow.operations import OPERATIONS
from dispatchflow.tunings import TUNINGS


def made(
    operation: str, shape: str, dtype: str, tuning: str, target: str, layout: str | None = None, **options
) -> Case:
    sizes = tuple(map(int, shape.split("x")))
    program = OPERATIONS[operation].make(sizes, dtype, layout, **options)
    asked = next(filter(None, (family.parse(tuning) for family in TUNINGS.values())))
    return Case(Dispatch(program, asked), TARGETS[target], 1 if TARGETS[target].has_threads else None)
