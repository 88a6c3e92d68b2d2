"""Build command lines of `_harness.py`, a script that runs or times calls of a library such as numpy."""

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
    """Return the beginning of a command line of `_harness.py`, which calls a library such as numpy.

    For a single call, append an `--output=FILE` for each result. For timed calls, use `block_argv`. The script's
    working directory must contain the file `program`, and a file `{recipe}_{i}.bin` for each input i."""
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
    """Return the command line of a process that times repeated calls of a library such as numpy.

    Args:
        call: the beginning of the command line (see `call_argv`).
        iterations: the number of calls. None: as many calls as fit into the block time of `protocol`.
        sets: the number of copies of the inputs, which the calls use in turn. None stands for 1."""
    length = f"{iterations}x" if iterations else f"{protocol.block_s}s"
    return (*call, f"--warmup={protocol.warmup_s}", f"--length={length}", f"--sets={sets or 1}")
