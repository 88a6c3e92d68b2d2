"""Derive the settings of an invocation from its variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dispatchflow.engine.settings import Settings
from dispatchflow.timing.protocols import PROTOCOLS
from dispatchflow.tools import limits


def settings(values: Mapping[str, Any], memory_bytes: int | None = None) -> Settings:
    """Return the settings of the variables `values`; `memory_bytes` is a tool's default memory limit."""
    given = {
        "compile_s": "compile_limit",
        "run_s": "run_limit",
        "block_s": "block_limit",
        "memory_bytes": "memory_limit",
    }
    return Settings(
        protocol=PROTOCOLS[values.get("protocol", "std")],
        verify=values.get("verify", "on"),
        remeasure=values.get("remeasure"),
        retry=values.get("retry", False),
        noisy=values.get("noisy"),
        limits=replace(
            limits.Limits(memory_bytes=memory_bytes, memory_asked=values.get("memory_limit") is not None),
            **{field: values[name] for field, name in given.items() if name in values},
        ),
    )
