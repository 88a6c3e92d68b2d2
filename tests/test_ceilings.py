"""What a machine can do at most, as it is remembered."""

import json
from dataclasses import replace

import pytest

from dispatchflow.targets import TARGETS
from dispatchflow.workspace import Workspace


@pytest.mark.iree
def test_more_threads_can_do_what_fewer_did(tmp_path, case_of):
    workspace, target = Workspace(tmp_path, {}), TARGETS["llvm-cpu"]
    one = workspace.device(target, 1)
    two = replace(one, threads=2)
    for device, rates in ((one, {"f32": 40e9, "cache": 5e9}), (two, {"f32": 11e9, "cache": 8e9})):
        workspace.store.records.remember(workspace.ceilings._name(target, device), json.dumps(rates))
    found = {device.threads: workspace.ceilings.of(case_of(m=64), device) for device in (one, two)}
    assert found == {1: (40e9, 5e9), 2: (40e9, 8e9)}
