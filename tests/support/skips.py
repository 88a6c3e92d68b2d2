"""Find out why planning skips a combination of operation, tuning and target."""

from __future__ import annotations

from dispatchflow.iree.targets import Target
from dispatchflow.planning.plan import unsupported_tuning, unsupported_workload
from dispatchflow.tunings.api import Tuning
from dispatchflow.workload import Workload


def unsupported_reason(program: Workload, tuning: Tuning, target: Target) -> str | None:
    return unsupported_workload(program, target) or unsupported_tuning(program, tuning, target)
