"""One call of a compiled module: its files, its command line, the results that it wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatchflow import commands, processes
from dispatchflow.actions import Data
from dispatchflow.keys import Digest
from dispatchflow.store import Store
from dispatchflow.targets import Device
from dispatchflow.toolchain import Toolchain

RUN_LIMIT_S = 120.0

Result = tuple[bool, str | None, dict[str, Digest], dict[str, Any]]
"""What executing an action gives: (ok, reason, outputs, facts)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a module is called: a scratch directory with its `module.vmfb`, a device, that device's tools."""

    store: Store
    toolchain: Toolchain
    environment: Mapping[str, str]
    scratch: Path
    device: Device

    def call(self, data: Data, recipe: str, outputs: Sequence[str], function: str) -> Result | None:
        """Writes the results as `outputs` into the scratch directory. None when it went well, else the failure."""
        self.store.place(self.scratch, data.files(recipe))
        argv = commands.run_argv(
            self.toolchain.tool("iree-run-module"),
            "module.vmfb",
            commands.device_flags(self.device.uri, self.device.cpus),
            data.inputs(recipe),
            outputs,
            function,
        )
        command = processes.Command(argv, self.scratch, self.environment, time_limit_s=RUN_LIMIT_S)
        outcome = processes.run(command)
        if outcome.failure is None:
            return None
        reason = f"run failed: {first_error(self.scratch) or outcome.failure}"
        return failed(outcome, reason, self.log(), {"verification": "not compared"})

    def log(self) -> dict[str, Digest]:
        return log_of(self.store, self.scratch)


def log_of(store: Store, scratch: Path) -> dict[str, Digest]:
    """What a tool said on stderr, as an output; nothing when it was silent."""
    log = scratch / "stderr"
    return {"log": store.put_bytes(log.read_bytes())} if log.exists() and log.stat().st_size else {}


def failed(outcome: processes.Outcome, reason: str, outputs: dict[str, Digest], facts: dict[str, Any]) -> Result:
    # SIGKILL comes from outside (out of memory, an impatient person): the next time may go well.
    return False, reason, outputs, facts | {"repeatable": outcome.code != -9 or outcome.timed_out}


def first_error(scratch: Path) -> str | None:
    """The first line of a tool's stderr that says `error`, without the place; else its last line."""
    lines = processes.shortened(scratch / "stderr", 100_000).splitlines()
    for line in lines:
        if "error: " in line:
            return line.split("error: ", 1)[1].rstrip(": ")[:300]
    return lines[-1][:300] if lines else None
