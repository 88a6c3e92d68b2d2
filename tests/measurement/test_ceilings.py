"""What a machine can do at most, as it is remembered."""

import json
from dataclasses import replace

import pytest

from dispatchflow.iree.targets import TARGETS
from dispatchflow.measurement.session import Session
from dispatchflow.project.workspace import Workspace


@pytest.fixture(autouse=True)
def unknown(tmp_path, monkeypatch):
    """A machine that was never calibrated."""
    monkeypatch.setenv("DISPATCHFLOW_CACHE", str(tmp_path / "cache"))


@pytest.mark.iree
def test_more_threads_reach_the_rates_of_fewer(tmp_path, case_of):
    workspace, target = Workspace(tmp_path, {}), TARGETS["llvm-cpu"]
    one = workspace.device(target, 1)
    two = replace(one, threads=2)
    for device, rates in ((one, {"f32": 40e9, "cache": 5e9}), (two, {"f32": 11e9, "cache": 8e9})):
        workspace.store.records.remember(workspace.ceilings.name(target, device), json.dumps(rates))
    found = {device.threads: workspace.ceilings.of(case_of(m=64), device) for device in (one, two)}
    assert found == {1: (40e9, 5e9), 2: (40e9, 8e9)}


@pytest.mark.iree
def test_rates_that_another_invocation_recorded_in_the_meantime_count(tmp_path):
    target = TARGETS["llvm-cpu"]
    first, second = (Workspace(tmp_path, {}) for _ in range(2))
    device = first.device(target, 1)
    name, records = first.ceilings.name(target, device), first.store.records
    sessions = [Session(workspace.bench, workspace.toolchain, workspace.run) for workspace in (first, second)]
    assert second.ceilings.missing(target, device, ["f32"]) == ["f32"]
    first.ceilings.calibrate(target, device, sessions[0], ["f32"])
    rates = json.loads(records.remembered(name))
    records.remember(name, json.dumps({"f64": 5e9}))  # by a third; the first one's, not yet

    second.ceilings.calibrate(target, device, sessions[1], ["f32"])

    assert json.loads(records.remembered(name)) == {"f64": 5e9, **rates}
    assert second.ceilings._rates(target, device) == {"f64": 5e9, **rates}
    assert records.last_measurement() == 1  # the second one took the first one's blocks


@pytest.mark.iree
def test_a_store_whose_ceilings_were_lost_is_calibrated_again(tmp_path):
    workspace, target = Workspace(tmp_path, {}), TARGETS["llvm-cpu"]
    device = workspace.device(target, 1)
    workspace.store.records.remember(workspace.ceilings.name(target, device), "{}")
    assert workspace.ceilings.missing(target, device, ["f32", "cache"]) == ["f32", "cache"]
