"""Define the state of a case: the state of each of its stages, such as `made`, `missing` or `failed`."""

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
    """The state of the stage, as one of these words.

    - `made`: the store has the record of a success.
    - `missing`: the store has no record that counts. The stage is to be executed.
    - `later`: the stage is to be executed, but its key needs the output of an earlier stage, which does not exist
      yet.
    - `failed`: a failure is recorded.
    - `blocked`: an earlier stage failed.
    - `off`: the stage is not executed. `verify` is off if the user chose `verify=off`. `compile` and `sites` are off
      if a library computes the case.
    - `absent`: no device can run the case, or no device can compute its expected results."""
    why: str
    action: Action | None = None
    record: RecordHead | None = None
    measurement: Measurement | None = None
    brought: Digest | None = None
    """The digest of a library's code. Only the stage `compile` of a library's case has this digest."""
    own: Action | None = None
    """The action that verifies with the present runtime, if another runtime made the recorded verdict."""
    doubt: str | None = None
    """A remark on a valid measurement, for example that another runtime made it.

    In the stage `sites`, it is the reason why the sites have no times."""

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
    """The entry in a list of known failures that describes the case's failure; None if no entry does."""
    sites: StageState | None = None
    """The state of stage `sites`; None if not requested. The states of the other stages are in `steps`."""

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
        """The case's dispatch.

        The lowering configurations that a user's module requests are known only after the stage `emit`."""
        emitted = self.steps["emit"].record
        return self.case.dispatch if emitted is None else self.case.dispatch.printed(emitted)

    @property
    def failure(self) -> StageState | None:
        """The state of the first stage that failed; None if no stage failed."""
        for step in self.steps.values():
            if step.state == "failed":
                return step
        return None
