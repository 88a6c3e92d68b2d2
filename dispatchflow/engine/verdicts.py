"""Which verdict on code counts: the present runtime's, or the one of the runtime that verified the code first.

The first verdict is found by the code alone, and a right one holds for all runtimes. What another runtime is to verify
once more, since it failed or since it is measured now, is a verification of that runtime: each keeps its own.
"""

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
    """What `step` says of the verdict that counts with this runtime; None of what needs none, a library's call."""
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


def again(verified: StageState, why: str | None, runtime: Digest) -> StageState:
    """To be made by this runtime where there is a reason, and another one made it."""
    if why is None or verified.state != "made" or verified.record is None:
        return verified
    if verified.record.runtime == runtime:
        return verified
    return msgspec.structs.replace(verified, state="missing", why=why, action=verified.own)
