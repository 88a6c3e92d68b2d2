"""Choose which verification of a case's code counts: the first one, or that by the present runtime.

The first verification may have used another IREE runtime, because its cache key does not contain the runtime. The keys
of later verifications contain it. docs/upgrades.md says when a later runtime verifies the code again."""

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
    """Return whether the present IREE runtime has verified a case's code, as a `StageState`.

    If this runtime has not verified the code, return the state of the first verification.

    Args:
        step: `step(action, message)` returns the state of an action. The state has this message if the action never
            ran.
        verification: returns the action of the code's first verification. `verification(runtime=X)` returns the action
            of a later verification with the runtime X.
        runtime: the digest of the present runtime; None if a library such as numpy computes the case.
    """
    first = step(verification(), _NEVER)
    if first.record is None or runtime is None or first.record.runtime == runtime:
        return first
    own = step(verification(runtime=runtime), _NEVER)
    if own.record is not None:
        return own
    # A verification that passed with another runtime counts until it must be repeated (see `again`).
    if first.state == "made":
        return msgspec.structs.replace(first, own=own.action)
    elsewhere = first.record.runtime is not None
    # After a failure with another runtime, the present runtime verifies again, under its own key.
    return msgspec.structs.replace(first, action=own.action) if elsewhere else first


def again(verified: StageState, why: str | None) -> StageState:
    """Return `verified`, with the state `missing` if the present runtime must repeat the verification.

    `verified` is the state of a verification by another runtime. `why` is the reason to repeat it if it passed; None if
    there is no reason. The state of a verification that failed is already `missing`, and is returned unchanged."""
    if why is None or verified.state != "made":
        return verified
    return msgspec.structs.replace(verified, state="missing", why=why, action=verified.own)
