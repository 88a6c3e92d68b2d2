"""Cases of all operations, tunings and targets in combination. Importing this file takes seconds."""

from __future__ import annotations

from support.product import RIGHT_ON_LAVAPIPE, everything
from support.skips import unsupported_reason

from dispatchflow.iree.targets import TARGETS

EVERYTHING = dict(everything())
ON_VULKAN = dict(everything([TARGETS["vulkan"]], RIGHT_ON_LAVAPIPE))
CASES = {
    choice: case
    for choice, case in EVERYTHING.items()
    if unsupported_reason(case.operation, case.tuning, case.target) is None
}
