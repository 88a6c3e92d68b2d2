"""Decide which inputs of a case with `cache=cold` are copied, so that each call uses uncached inputs."""

from __future__ import annotations

from collections.abc import Sequence

from dispatchflow.cases import rotating_inputs
from dispatchflow.cases.module import Module
from dispatchflow.engine.data import DataResolver
from dispatchflow.iree.rotation import Rotation
from dispatchflow.operations import Operation
from dispatchflow.workload import Workload


def of(program: Workload, supplies: DataResolver, cache_bytes: int | None) -> Rotation | None:
    """Return which inputs of a case with `cache=cold` are copied, and how many copies are made.

    `cache_bytes` is the size of the last-level cache. Returns None if no input can be copied, or if the inputs of a
    user's module do not exist yet."""
    assert cache_bytes is not None
    if isinstance(program, Operation):
        return rotating_inputs.of_operation(program, cache_bytes)
    assert isinstance(program, Module)
    printed, operands, declared = supplies.printed(program), supplies.operands(program), supplies.declaration(program)
    if printed is None or operands is None or declared is None:
        return None
    name = printed.facts["name"]
    return rotating_inputs.of_module(name, program.function, declared, operands.arguments, cache_bytes)


def problem(program: Workload, supplies: DataResolver, rotation: Rotation | None, flags: Sequence[str]) -> str | None:
    """Return why a user's module cannot be measured with a cold cache; None if it can.

    `rotation` is the result of the function `of`. `flags` are the compiler flags of the module."""
    if not isinstance(program, Module):
        return None
    printed = supplies.printed(program)
    assert printed is not None
    return rotating_inputs.module_problem(rotation, printed.facts["stored"], flags)
