"""Decide whose verdict on code counts: the present runtime's, or the first runtime's that verified it.

The first runtime's verdict is looked up by the code alone; if the code passed, the verdict holds for all runtimes.
Another runtime verifies the code again if the code failed with the first runtime, or if the code is measured now. Each
runtime that verifies again has its own verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from dispatchflow.keys import Digest

if TYPE_CHECKING:
    from dispatchflow.engine.actions import Action
    from dispatchflow.engine.state import StageState

_NEVER = "this code was never verified on this device"


def standing(
    step: Callable[[Action, str], StageState], verification: Callable[..., Action], runtime: Digest | None
) -> StageState:
    """Return the state of the verdict that counts with `runtime`; `step` returns an action's state.

    `runtime` is None for a library's call, which needs no second verdict."""
    first = step(verification(), _NEVER)
    if first.record is None or runtime is None or first.record.runtime == runtime:
        return first
    own = step(verification(runtime=runtime), _NEVER)
    if own.record is not None:
        return own
    if first.state == "made":
        return msgspec.structs.replace(first, own=own.action)
    elsewhere = first.record.runtime is not None
    return msgspec.structs.replace(first, action=own.action) if elsewhere else first


def again(verified: StageState, why: str | None) -> StageState:
    """Return another runtime's verification with the state `missing` for the reason `why`.

    Without a reason it is returned unchanged."""
    if why is None or verified.state != "made":
        return verified
    return msgspec.structs.replace(verified, state="missing", why=why, action=verified.own)
