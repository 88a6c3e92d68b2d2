"""Build the command lines of `_harness.py`, which runs or times calls of a library such as numpy."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dispatchflow.iree.targets import Device
from dispatchflow.libraries.installed import Installed
from dispatchflow.mlir.types import TensorType
from dispatchflow.timing.protocols import Protocol

_SCRIPT = Path(__file__).with_name("_harness.py")


def call_argv(
    library: str, installed: Installed, program: str, device: Device, tensors: Sequence[TensorType], recipe: str
) -> tuple[str, ...]:
    """Return the command line of `_harness.py` for calls of a library, without the last flags.

    For a single call, the caller appends an `--output=FILE` for each result. For a block, `block_argv` appends
    flags. The working directory must contain `program`, the file to call. Input i must be in the file
    `RECIPE_i.bin`, where RECIPE is the argument `recipe`."""
    return (
        sys.executable,
        "-I",  # ignores environment variables such as PYTHONPATH
        str(_SCRIPT),
        f"--path={installed.folder}",
        f"--library={library}",
        f"--call={program}",
        f"--device={device.uri}",
        f"--threads={device.threads}",
        *(
            f"--input={tensor.element.numpy_name}:{'x'.join(map(str, tensor.shape))}:{recipe}_{i}.bin"
            for i, tensor in enumerate(tensors)
        ),
    )


def block_argv(call: Sequence[str], protocol: Protocol, iterations: int | None, sets: int | None) -> tuple[str, ...]:
    """Return the command line of one block: repeated calls that are timed.

    Args:
        call: the result of `call_argv`.
        iterations: the number of calls; None for as many calls as fit into about `protocol.block_s` seconds.
        sets: the number of copies of the inputs, which the calls use in turn; None for one copy.
    """
    length = f"{iterations}x" if iterations else f"{protocol.block_s}s"
    return (*call, f"--warmup={protocol.warmup_s}", f"--length={length}", f"--sets={sets or 1}")
