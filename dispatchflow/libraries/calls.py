"""Runs a library's calls: the command lines of `_harness.py`, and the place where verification calls one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatchflow.cases.dispatch import Case
from dispatchflow.engine.actions import Data
from dispatchflow.engine.call import Place
from dispatchflow.iree.targets import Device
from dispatchflow.libraries.installed import Installed
from dispatchflow.operations import Operation
from dispatchflow.timing.protocols import Protocol

_SCRIPT = Path(__file__).with_name("_harness.py")


@dataclass(frozen=True, slots=True)
class LibraryPlace(Place):
    case: Case
    installed: Installed

    @staticmethod
    def of(place: Place, case: Case, installed: Installed) -> LibraryPlace:
        return LibraryPlace(
            place.store, place.toolchain, place.environment, place.limits, place.scratch, place.device, case, installed
        )

    def again(self) -> None:
        """A library's own memory is no subject here."""

    @property
    def ran_with(self) -> dict[str, Any]:
        return {}  # its version is in the code's digest

    def argv(self, data: Data, recipe: str, outputs: Sequence[str], function: str) -> tuple[str, ...]:
        return (*call_argv(self.case, self.installed, self.device, recipe), f"--output={outputs[0]}")


def call_argv(case: Case, installed: Installed, device: Device, recipe: str) -> tuple[str, ...]:
    """The inputs of a recipe lie in the directory where it runs, with the call. A Python of its own, which sees the
    library and none of the user's variables."""
    operation = case.operation
    assert isinstance(operation, Operation)
    tensors = [operand.type for operand in operation.operands()]
    return (
        sys.executable,
        "-I",
        str(_SCRIPT),
        f"--path={installed.folder}",
        f"--library={case.provider}",
        "--call=call.py",
        f"--device={device.uri}",
        f"--threads={device.threads}",
        *(
            f"--input={tensor.element.numpy_name}:{'x'.join(map(str, tensor.shape))}:{recipe}_{i}.bin"
            for i, tensor in enumerate(tensors)
        ),
    )


def block_argv(
    case: Case, installed: Installed, device: Device, protocol: Protocol, iterations: int | None, sets: int | None
) -> tuple[str, ...]:
    """One block, as `command_lines.block_argv` of a module."""
    length = f"{iterations}x" if iterations else f"{protocol.block_s}s"
    call = call_argv(case, installed, device, case.operation.recipes[-1])
    return (*call, f"--warmup={protocol.warmup_s}", f"--length={length}", f"--sets={sets or 1}")
