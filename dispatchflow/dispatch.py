"""Operation × tuning = Dispatch, emitted as one MLIR module; Dispatch × target × threads = Case."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from dispatchflow.keys import digest_of
from dispatchflow.operations import Operation
from dispatchflow.syntax import NEWEST, Syntax
from dispatchflow.targets import Target
from dispatchflow.tunings import Tuning

FUNCTION = "main"
"""Every generated module's entry. One name for all: it reaches the executables' names, and so the code digest."""

_MAX_NAME_BYTES = 200


@dataclass(frozen=True, slots=True)
class Dispatch:
    operation: Operation
    tuning: Tuning

    def module(self, syntax: Syntax = NEWEST) -> str:
        """The MLIR text. Free of paths, dates and names, every location unknown: equal dispatches, equal bytes."""
        lowering = self.tuning.lowering(self.operation, syntax)
        return lowering.prelude + _module(self.operation, lowering.attribute)


@lru_cache(maxsize=64)
def _module(operation: Operation, attribute: str) -> str:
    """Most tunings of an operation differ before the module only."""
    arguments = ", ".join(
        f"%arg{i}: {operand.type.mlir} loc(unknown)" for i, operand in enumerate(operation.operands())
    )
    return f"""\
module @dispatch {{
  func.func @{FUNCTION}({arguments}) -> {operation.result().mlir} {{
{operation.body(attribute)}  }} loc(unknown)
}} loc(unknown)
"""


@dataclass(frozen=True)
class Case:
    """The unit that is compiled, verified and profiled. `threads` None: as many as the machine has cores."""

    dispatch: Dispatch
    target: Target
    threads: int | None = None

    @property
    def operation(self) -> Operation:
        return self.dispatch.operation

    @property
    def tuning(self) -> Tuning:
        return self.dispatch.tuning

    @property
    def shape_name(self) -> str:
        return self.operation.shape_name

    def __hash__(self) -> int:
        return hash(self.name)  # injective, and a string keeps its hash: that of all fields costs ten times as much

    @cached_property
    def name(self) -> str:
        """`matmul_512x512x512_f32t_f32t_f32t_default@llvm-cpu-1t`: injective, no `=`, `*` or white space."""
        threads = "" if self.threads is None else f"-{self.threads}t"
        name = f"{self.shape_name}_{self.tuning.name}@{self.target.name}{threads}"
        if len(name.encode()) <= _MAX_NAME_BYTES:
            return name
        digest = digest_of(name.encode())
        return f"{name[: _MAX_NAME_BYTES - len(digest) - 1]}_{digest}"
