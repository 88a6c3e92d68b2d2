"""Targets that are not this CPU: what is compiled for them, and what happens where their device is or is not."""

import pytest
from real import Project, sweep

from dispatchflow import devices
from dispatchflow.targets import TARGETS

DUMP = """\
# ===----------------------------------------------------------------------===
# --device=vulkan://GPU-6d65
#   llvmpipe (LLVM 15.0.6, 256 bits) (llvmpipe Mesa 22.3.6)
# ===----------------------------------------------------------------------===
name: llvmpipe (LLVM 15.0.6, 256 bits)
api: 1.3.230
driver_info: Mesa 22.3.6 (LLVM 15.0.6)
memory_heaps: 1
  [0] size=2147483648 flags=0x00000001
# --device=vulkan://GPU-7777
name: another
"""


def test_first_device_is_taken_and_its_driver_is_part_of_it():
    uri, identity = devices.parse(DUMP)
    assert uri == "vulkan://GPU-6d65"
    assert identity == {
        "name": "llvmpipe (LLVM 15.0.6, 256 bits)",
        "api": "1.3.230",
        "driver_info": "Mesa 22.3.6 (LLVM 15.0.6)",
    }
    assert devices.parse("# Enumerated devices for driver 'vulkan'\n") == (None, {})
    other, unknown = devices.parse("--device=new://0\nspeed: 3\n")
    assert (other, set(unknown)) == ("new://0", {"said"})


@pytest.mark.iree
@pytest.mark.parametrize(
    "target", [name for name, target in TARGETS.items() if target.driver in ("cuda", "hip", "metal")]
)
def test_without_its_device_a_target_is_compiled_and_no_failure(target, tmp_path):
    project = Project.make(tmp_path / "p", sweep(m=16, n=16, k=16, target=target, threads=1))
    outcome = project.doit("protocol=fast")
    (row,) = project.rows()
    if row["status"] != "no device":
        pytest.skip(f"this machine has a device for it: {row['device']}")
    assert outcome.code == 0, outcome
    assert (row["case"], row["code_bytes"] > 0) == (f"matmul_16x16x16_f32t_f32t_f32t_default@{target}", True)
    assert f"no device: {row['reason']} (1 case, compiled only)" in outcome.out
    again = project.doit("protocol=fast")
    assert "nothing made" in again.out


@pytest.mark.iree
def test_vulkan_is_verified_and_measured_where_it_is(tmp_path):
    project = Project.make(
        tmp_path / "p", sweep(m=24, n=16, k=40, target="vulkan", layout=["tt", "nt"], threads=[1, 2])
    )
    outcome = project.doit("protocol=fast")
    rows = project.rows()
    assert len(rows) == 2  # threads are none of its axes
    if rows[0]["status"] == "no device":
        pytest.skip(f"no Vulkan here: {rows[0]['reason']} (Debian: mesa-vulkan-drivers libvulkan1)")
    assert outcome.code == 0, outcome
    assert {row["verification"] for row in rows} == {"within bound"}
    assert all(row["median_ns"] > 0 and row["device"].startswith("vulkan://") for row in rows)
    assert "nothing made" in project.doit("protocol=fast").out


@pytest.mark.iree
def test_devices_lists_every_target_and_why_one_is_missing(tmp_path):
    outcome = Project.make(tmp_path / "p").doit("devices")
    assert outcome.code == 0, outcome
    lines = {line.split()[0]: line for line in outcome.out.splitlines()}
    assert set(TARGETS) < set(lines)
    assert "local-task" in lines["llvm-cpu"]
    assert "no driver 'metal' registered" in lines["metal"]
