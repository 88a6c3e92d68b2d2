"""Choose between the first runtime's verdict on a case's code and the present runtime's verdict.

The first runtime is the runtime that first verified the code. Code that passed with the first runtime counts as
verified for all runtimes. The present runtime verifies again if the code failed, if the code is measured now, or if one
of the two runtimes computes wrong results. Only the first runtime's verdict has a key without the runtime."""

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
    """Return the state of the verdict that counts for the present runtime.

    Args:
        step: returns the state of an action; its second argument is the reason if the action was never executed.
        verification: returns the action of the first verification, or with `runtime=` that of a later verification.
        runtime: the digest of the present runtime; None for a library's call.
    """
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
    """Return `verified`, or the state `missing` if the present runtime must repeat the verification.

    `verified` is another runtime's verification. A passed verification is repeated if `why` is not None."""
    if why is None or verified.state != "made":
        return verified
    return msgspec.structs.replace(verified, state="missing", why=why, action=verified.own)
