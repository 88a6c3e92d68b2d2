"""Derive the settings of an invocation from the variables of its command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dispatchflow.engine.settings import Settings
from dispatchflow.timing.protocols import PROTOCOLS, shortened
from dispatchflow.tools import limits

_SHORT = "DISPATCHFLOW_TESTS_SHORT_MEASUREMENTS"
"""The environment variable that makes measurements short in our own tests (CONTRIBUTING.md)."""


def settings(values: Mapping[str, Any], memory_bytes: int | None = None) -> Settings:
    """Return the settings that variables such as `verify=off` request.

    If `values` has no `memory_limit`, the memory limit of each tool (such as the compiler) is `memory_bytes`."""
    given = {
        "compile_s": "compile_limit",
        "run_s": "run_limit",
        "block_s": "block_limit",
        "memory_bytes": "memory_limit",
    }
    protocol = PROTOCOLS[values.get("protocol", "std")]
    return Settings(
        protocol=shortened(protocol) if os.environ.get(_SHORT) else protocol,
        verify=values.get("verify", "on"),
        remeasure=values.get("remeasure"),
        retry=values.get("retry", False),
        noisy=values.get("noisy"),
        limits=replace(
            limits.Limits(memory_bytes=memory_bytes, memory_asked=values.get("memory_limit") is not None),
            **{field: values[name] for field, name in given.items() if name in values},
        ),
    )
