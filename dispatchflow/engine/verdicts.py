"""Choose whose verdict counts for the code of a case: the first runtime's or the present runtime's.

The first runtime is the one that verified the code first. The cache key of its verification does not contain the
runtime; the keys of later verifications do. docs/upgrades.md says when a later runtime verifies the code again."""

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

    The present runtime's own verdict counts, if there is one; otherwise the first runtime's, if it passed. If it
    failed, the state has the action of the present runtime's verification.

    Args:
        step: a function (action, why) that returns the state of an action. `why` becomes the state's `why` if the
            action was never executed.
        verification: returns the action of the first runtime's verification; with `runtime=`, of that runtime's.
        runtime: the digest of the present runtime; None if a library computes the case.
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
