"""Choose between two verdicts on a case's code: that of the first runtime and that of the present one.

The first runtime is the one that first verified the code. Code that passed with it counts as verified for all runtimes.
The present runtime verifies the code again if the code failed with the first one, if the code is measured now, or if
controls show that one of the two runtimes computes wrong results. The key of the first runtime's verdict does not
contain the runtime. The key of each further runtime's verdict does."""

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
        verification: returns the action of the first verification, or with `runtime=` that of a runtime's own one.
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
    """Return the state of a verification that the present runtime may have to repeat.

    If `verified`, another runtime's verification, passed and `why` is a reason, the state is `missing`. Otherwise it is
    `verified`."""
    if why is None or verified.state != "made":
        return verified
    return msgspec.structs.replace(verified, state="missing", why=why, action=verified.own)
