"""Where a case stands: for each stage its key, as far as it can be known, what the store has for it, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.engine.actions import Action
from dispatchflow.iree.targets import Device
from dispatchflow.keys import Digest, Key
from dispatchflow.stages import STAGES

if TYPE_CHECKING:
    from dispatchflow.cases.known_failures import KnownFailure
    from dispatchflow.store.entries import Measurement, RecordHead

_PENDING = ("missing", "later")


class StageState(msgspec.Struct, frozen=True):
    """One stage of one case.

    state: `made`, `missing`, `later` (its key needs an upstream output), `failed` (recorded), `blocked` (an upstream
    stage failed), `off` (not asked for; or a library brings what a compile would make), `absent` (there is no device to
    run it, or what it is compared with). Pending are `missing` and `later`.
    """

    stage: str
    state: str
    why: str
    action: Action | None = None
    record: RecordHead | None = None
    measurement: Measurement | None = None
    brought: Digest | None = None
    """Of a compile: stands for the code that a library brings instead."""
    own: Action | None = None
    """Of a verdict that another runtime may have given: the verification by the present one."""
    doubt: str | None = None
    """What a reader should know of a measurement that stands: a later one failed, or another runtime took it."""

    @property
    def code(self) -> Digest | None:
        return self.record.code if self.record else self.brought

    @property
    def pending(self) -> bool:
        return self.state in _PENDING

    @property
    def key(self) -> Key | None:
        return self.action.key if self.action else None


class CaseState(msgspec.Struct, frozen=True):
    case: Case
    device: Device
    steps: Mapping[str, StageState]
    known: KnownFailure | None = None
    """The entry that knows how it failed."""

    def __getitem__(self, stage: str) -> StageState:
        return self.steps[stage]

    def made(self, stage: str) -> bool:
        return self.steps[stage].state == "made"

    def pending(self, stage: str) -> list[str]:
        """The stages up to this one that are to be executed."""
        upto = STAGES[: STAGES.index(stage) + 1]
        return [name for name in upto if self.steps[name].state in _PENDING]

    @property
    def dispatch(self) -> Dispatch:
        """With what a user's module asks for, as far as it is printed."""
        emitted = self.steps["emit"].record
        return self.case.dispatch if emitted is None else self.case.dispatch.printed(emitted)

    @property
    def failure(self) -> StageState | None:
        """The first stage that failed; None when none did."""
        for step in self.steps.values():
            if step.state == "failed":
                return step
        return None
