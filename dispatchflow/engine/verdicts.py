"""Choose whose verdict counts for the code of a case: the first runtime's or the present runtime's.

The first runtime is the IREE runtime that verified the code first. If its verification passed, a later runtime does not
repeat it, unless the later runtime is about to measure the code, or one of the two runtimes is known to compute wrong
results. If the first verification failed, a later runtime verifies the code again.

The cache key of the first verification does not contain the runtime. The keys of later verifications do."""

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
    """Return the state of the verification whose verdict counts for the present runtime.

    If the present runtime has verified the code, its own verdict counts. Otherwise the first runtime's verdict counts.

    Args:
        step: a function (action, why) that returns the state of an action, which is one step of the work. `why` becomes
            the state's reason if the action was never executed.
        verification: a function that returns the action of the first verification. If called with `runtime=`, it
            returns the action that verifies with this runtime.
        runtime: the digest of the present runtime; None if a library such as numpy computes the case.
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
    """Return `verified`, with the state `missing` if the present runtime must repeat the verification.

    `verified` is the state of a verification by another runtime. It is returned unchanged if that verification did not
    pass, or if `why`, the reason to repeat it, is None."""
    if why is None or verified.state != "made":
        return verified
    return msgspec.structs.replace(verified, state="missing", why=why, action=verified.own)
