"""The devices that a runtime's driver finds on this machine."""

from __future__ import annotations

import os
import re
from typing import Any

from dispatchflow import processes
from dispatchflow.commands import device_environment
from dispatchflow.keys import digest_of
from dispatchflow.locks import Machine
from dispatchflow.store import Store
from dispatchflow.targets import Device
from dispatchflow.toolchain import Toolchain

_LIMIT_S = 60.0

# What decides the code that runs: the driver compiles SPIR-V and PTX.
_IDENTITY = ("name", "api", "vendor_id", "device_id", "driver", "driver_info", "device_uuid", "driver_uuid")


def found(driver: str, toolchain: Toolchain, store: Store) -> Device:
    """The driver's first device; `absent` when it finds none, with the driver's own words."""
    with Machine().busy(), store.scratch() as scratch:
        argv = (toolchain.tool("iree-run-module"), f"--dump_devices={driver}")
        outcome = processes.run(processes.Command(argv, scratch, device_environment(os.environ), time_limit_s=_LIMIT_S))
        text = (scratch / "stdout").read_text(errors="replace")
        errors = processes.shortened(scratch / "stderr", 2000)
    uri, fields = parse(text)
    if uri is not None:
        return Device(uri, 1, (), {"driver": driver, **fields})
    return Device(driver, 1, (), {"driver": driver}, _reason(errors) or outcome.failure or "the driver finds no device")


def parse(text: str) -> tuple[str | None, dict[str, Any]]:
    """(URI, what identifies it) of the first device in what `--dump_devices` prints; (None, {}) for none."""
    begin = re.search(r"--device=(\S+)", text)
    if begin is None:
        return None, {}
    rest = text[begin.end() :]
    end = re.search(r"--device=", rest)
    block = rest[: end.start()] if end else rest
    fields = dict(re.findall(r"^(\w+): (.*)$", block, re.MULTILINE))
    known: dict[str, Any] = {name: fields[name] for name in _IDENTITY if name in fields}
    # Another driver's words are not known here: all that it says of the device is its identity.
    return begin[1], known or {"said": digest_of(block.encode())}


def _reason(errors: str) -> str | None:
    """The driver's message without the place in its source: `UNAVAILABLE; CUDA driver library … not available`."""
    match = re.search(r"\.c(?:c|pp)?:\d+: ([^\n]+)", errors)
    lines = errors.splitlines()
    return (match[1] if match else lines[-1] if lines else "")[:200] or None
