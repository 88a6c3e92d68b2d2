"""Define the state of a case: whether each stage is done, the reason, and the stage's action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.engine.actions import Action
from dispatchflow.iree.targets import Device
from dispatchflow.keys import Digest, Key
from dispatchflow.stages import SITES, up_to

if TYPE_CHECKING:
    from dispatchflow.cases.known_failures import KnownFailure
    from dispatchflow.store.entries import Measurement, RecordHead

_PENDING = ("missing", "later")


class StageState(msgspec.Struct, frozen=True):
    stage: str
    state: str
    """`made`, `missing`, `later`, `failed`, `blocked`, `off` or `absent`.

    - `made`: the store has a good record.
    - `missing`: the store has no record that counts, so the stage is to be executed.
    - `later`: the key needs an upstream output that does not exist yet. A later stage is to be executed too.
    - `failed`: a failure is recorded.
    - `blocked`: an upstream stage failed.
    - `off`: not requested, or not needed because a library brings its own code.
    - `absent`: no device can run the case, or compute the results that it is compared with."""
    why: str
    action: Action | None = None
    record: RecordHead | None = None
    measurement: Measurement | None = None
    brought: Digest | None = None
    """The digest of a library's code. Only the stage `compile` of a library's case has this digest."""
    own: Action | None = None
    """The action that verifies with the present runtime, if the recorded verdict is another runtime's."""
    doubt: str | None = None
    """A remark on a valid measurement, such as that another runtime took it; or why sites have no times."""

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
    """The known-failure entry that describes the case's failure; None if there is none."""
    sites: StageState | None = None
    """The state of stage `sites`, if requested. It is not in `steps`, because rows do not depend on it."""

    def __getitem__(self, stage: str) -> StageState:
        if stage != SITES:
            return self.steps[stage]
        assert self.sites is not None
        return self.sites

    def made(self, stage: str) -> bool:
        return self.steps[stage].state == "made"

    def pending(self, stage: str) -> list[str]:
        """Return the stages up to `stage` that are to be executed."""
        found = [name for name in up_to(stage) if self.steps[name].state in _PENDING]
        return [*found, SITES] if stage == SITES and self[SITES].pending else found

    @property
    def dispatch(self) -> Dispatch:
        """The case's dispatch, with the lowering configurations that a user's module requests.

        These configurations are known once the stage `emit` has printed the module."""
        emitted = self.steps["emit"].record
        return self.case.dispatch if emitted is None else self.case.dispatch.printed(emitted)

    @property
    def failure(self) -> StageState | None:
        """The first stage that failed; None if none did."""
        for step in self.steps.values():
            if step.state == "failed":
                return step
        return None
