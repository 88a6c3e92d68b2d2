"""A machine's highest flop/s and bytes/s are measured once, recorded, and looked up for each case.

The flop/s depend on the element type."""

import json
from dataclasses import replace

import pytest

from dispatchflow.iree.targets import TARGETS
from dispatchflow.measurement import calibration
from dispatchflow.measurement.ceilings import work_of_site
from dispatchflow.measurement.session import Session
from dispatchflow.models.site import Site
from dispatchflow.project.workspace import Workspace


@pytest.fixture(autouse=True)
def unknown(tmp_path, monkeypatch):
    """Use an empty cache folder, as on a machine whose highest flop/s and bytes/s were never measured."""
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


@pytest.mark.parametrize(
    ("elements", "traffic", "found"),
    [
        (("f32",), 1000, (9e9, 4e9)),
        (("f32",), 3000, (9e9, 3e9)),
        (("f64",), 1000, (2e9, 4e9)),
        (("f16", "f32"), 1000, (9e9, 4e9)),
        (("f32", "f64"), 1000, (9e9, 4e9)),  # a mixture has the limit of its faster type
        (("bf16", "f32"), 1000, (None, 4e9)),  # wide dot products may be faster
        (("f32", "i64"), 1000, (None, 4e9)),
        (("complex<f32>",), 1000, (None, 4e9)),
        ((), 1000, (None, 4e9)),
    ],
)
def test_ceilings_of_a_site_are_those_of_its_element_types(elements, traffic, found):
    site = Site(1, "main", False, "exe", "kernel", 0, 0, (), 100, traffic, elements=elements)
    rates = {"f32": 9e9, "f64": 2e9, "cache": 4e9, "cache_read": 4e9, "memory": 3e9, "memory_read": 3e9}
    of_cpu = calibration.processor(TARGETS["llvm-cpu"], "avx512f avx512_bf16", 1000)
    assert calibration.ceilings(rates, work_of_site(site), of_cpu) == found


def test_a_site_of_unknown_traffic_has_no_ceilings():
    assert work_of_site(Site(1, "main", False, "exe", "kernel", 0, 0)) is None


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
    records.remember(name, json.dumps({"f64": 5e9}))  # a third invocation overwrites the rates of the first

    second.ceilings.calibrate(target, device, sessions[1], ["f32"])

    assert json.loads(records.remembered(name)) == {"f64": 5e9, **rates}
    assert second.ceilings._rates(target, device) == {"f64": 5e9, **rates}
    assert records.last_measurement() == 1  # the second invocation reuses the first one's blocks


@pytest.mark.iree
def test_a_store_whose_ceilings_were_lost_is_calibrated_again(tmp_path):
    workspace, target = Workspace(tmp_path, {}), TARGETS["llvm-cpu"]
    device = workspace.device(target, 1)
    workspace.store.records.remember(workspace.ceilings.name(target, device), "{}")
    assert workspace.ceilings.missing(target, device, ["f32", "cache"]) == ["f32", "cache"]
