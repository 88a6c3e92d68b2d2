"""The device that runs a target is found, and the driver's build is a part of the device's identity.

Cases of a target without a device are only compiled."""

import pytest
from support.project import Project, sweep
from support.tools import write_script

from dispatchflow.cli.commands.devices import table_of
from dispatchflow.iree import command_lines
from dispatchflow.iree.targets import TARGETS
from dispatchflow.project.workspace import Workspace
from dispatchflow.tools import devices

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


def test_first_device_is_taken_and_its_driver_is_part_of_its_identity():
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


@pytest.mark.parametrize(
    ("said", "target", "absent"),
    [
        ("gpu-compute-capability: 9.0", "cuda-sm_89", None),
        ("gpu-compute-capability: 9.0", "cuda-sm_120", "the first GPU is sm_90, before sm_120"),
        ("gpu-compute-capability: 12.0", "cuda-sm_80", None),
        ("gpu-compute-capability: 9.4\n- gpu-arch-name: gfx942:sramecc+:xnack-", "rocm-gfx942", None),
        (
            "gpu-compute-capability: 9.4\n- gpu-arch-name: gfx942:sramecc+:xnack-",
            "rocm-gfx90a",
            "the first GPU is gfx942",
        ),
        ("gpu-clock-rate: 1 kHz", "cuda-sm_120", None),
        (
            "name: AMD Radeon RX 7900 XTX (RADV NAVI31)",
            "vulkan-rdna3",
            "vulkan-rdna3 is only compiled: the driver does not report whether its GPU is rdna3",
        ),
    ],
)
def test_gpu_that_does_not_run_a_target_is_not_its_device(said, target, absent, tmp_path):
    tool = tmp_path / "tool"
    write_script(tool, f"printf '# --device=driver://0\\n- {said}\\n# --device=driver://1\\n'")
    opened = Workspace(tmp_path, {})
    driver = TARGETS[target].driver
    opened._devices[driver, None] = devices.detect(driver, str(tool), opened.settings.limits)
    device = opened.device(TARGETS[target], None)
    assert (device.uri, device.absent) == ("driver://0", absent)


@pytest.mark.parametrize("capability", ["9.0", "8.9"])
def test_hopper_card_has_a_note_on_the_code_that_it_runs(capability, tmp_path):
    tool = tmp_path / "tool"
    write_script(tool, f"printf '# --device=cuda://0\\n- gpu-compute-capability: {capability}\\n'")
    opened = Workspace(tmp_path, {})
    device = devices.detect("cuda", str(tool), opened.settings.limits)
    opened._devices |= {(target.driver, None): device for target in TARGETS.values()}
    note = "cuda://0 is sm_90: IREE does not know this architecture. Use cuda-sm_89: the driver of a Hopper card compiles its code."
    assert (note in table_of(opened).splitlines()) == (capability == "9.0")


@pytest.mark.iree
@pytest.mark.parametrize(
    "target", [name for name, target in TARGETS.items() if target.driver in ("cuda", "hip", "metal")]
)
def test_target_without_its_device_is_compiled_and_not_a_failure(target, tmp_path):
    project = Project.make(tmp_path / "p", sweep(m=16, n=16, k=16, target=target, threads=1))
    outcome = project.doit("protocol=fast")
    (row,) = project.rows()
    if row["status"] != "no device":
        pytest.skip(f"this machine has a device for it: {row['device']}")
    assert outcome.code == 0, str(outcome)
    assert (row["case"], row["code_bytes"] > 0) == (f"matmul_16x16x16_f32t_f32t_f32t_default@{target}", True)
    assert f"no device: {row['reason']} (1 case, not run)" in outcome.out
    again = project.doit("protocol=fast")
    assert "up to date" in again.out


def test_variables_that_choose_a_driver_reach_tools_that_run_modules_and_never_the_compiler():
    chosen = {"VK_DRIVER_FILES": "a.json", "CUDA_VISIBLE_DEVICES": "1", "ROCR_VISIBLE_DEVICES": "2"}
    chosen["HIP_VISIBLE_DEVICES"] = ""
    given = chosen | {"LD_LIBRARY_PATH": "lib", "HOME": "/h"}
    assert command_lines.environment(given) == {"LC_ALL": "C", "LD_LIBRARY_PATH": "lib"}
    assert command_lines.device_environment(given) == {"LC_ALL": "C", "LD_LIBRARY_PATH": "lib", **chosen}


def test_libraries_that_a_driver_is_loaded_from_are_part_of_the_identity(tmp_path, monkeypatch):
    tool = tmp_path / "tool"
    write_script(tool, "echo '# --device=cuda://0'; echo 'name: card'")
    limits = Workspace(tmp_path, {}).settings.limits
    found = {}
    for value in (None, "", "/a", "/b"):
        monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
        if value is not None:
            monkeypatch.setenv("LD_LIBRARY_PATH", value)
        found[value] = devices.detect("cuda", str(tool), limits)
    assert found[None].identity == found[""].identity
    assert "LD_LIBRARY_PATH" not in found[None].identity
    assert found["/a"].identity == found[None].identity | {"LD_LIBRARY_PATH": "/a"}
    assert len({device.digest for device in found.values()}) == 3


NVIDIA = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023
GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)
"""


def test_build_of_a_gpu_s_driver_is_part_of_its_identity(tmp_path):
    nvidia, amd = tmp_path / "proc/driver/nvidia/version", tmp_path / "sys/module/amdgpu/version"
    for path, text in {nvidia: NVIDIA, amd: "6.7.0\n"}.items():
        assert devices.driver_build("cuda" if path is nvidia else "hip", tmp_path) == {}
        path.parent.mkdir(parents=True)
        path.write_text(text)
    first = devices.driver_build("cuda", tmp_path)
    line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023"
    assert first == {"driver_build": line}
    assert devices.driver_build("hip", tmp_path) == {"driver_build": "6.7.0"}
    assert devices.driver_build("vulkan", tmp_path) == {}
    nvidia.write_text(NVIDIA.replace("11.4.0", "12.1.0"))
    assert devices.driver_build("cuda", tmp_path) == first
    nvidia.write_text(NVIDIA.replace("535.104.05", "535.104.12"))
    assert devices.driver_build("cuda", tmp_path) != first


def test_found_gpu_has_its_driver_s_build(tmp_path, monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(devices, "driver_build", lambda driver: {"driver_build": f"build of {driver}"})
    tool = tmp_path / "tool"
    write_script(tool, "echo '# --device=cuda://0'; echo 'name: card'")
    device = devices.detect("cuda", str(tool), Workspace(tmp_path, {}).settings.limits)
    assert device.identity == {"driver": "cuda", "driver_build": "build of cuda", "name": "card"}


@pytest.mark.parametrize(
    ("driver", "variable"),
    [("cuda", "CUDA_VISIBLE_DEVICES"), ("hip", "ROCR_VISIBLE_DEVICES"), ("hip", "HIP_VISIBLE_DEVICES")],
)
def test_gpu_that_the_user_chose_is_the_one_that_is_detected(driver, variable, tmp_path, monkeypatch):
    tool = tmp_path / "tool"
    write_script(tool, f'printf "# --device={driver}://GPU-${{{variable}:-0}}\\nname: card ${{{variable}:-0}}\\n"')
    limits = Workspace(tmp_path, {}).settings.limits
    monkeypatch.delenv(variable, raising=False)
    first = devices.detect(driver, str(tool), limits)
    monkeypatch.setenv(variable, "1")
    second = devices.detect(driver, str(tool), limits)
    assert (first.uri, second.uri) == (f"{driver}://GPU-0", f"{driver}://GPU-1")
    assert (first.identity["name"], second.identity["name"]) == ("card 0", "card 1")


def test_reason_for_no_device_is_the_driver_s_message_without_its_source_location():
    said = "iree/hal.c:63: UNAVAILABLE; HIP runtime library 'libamdhip64.so' not available: searched path: \n"
    assert devices._reason(said) == "UNAVAILABLE; HIP runtime library 'libamdhip64.so' not available: searched path"


@pytest.mark.iree
def test_devices_lists_every_target_and_the_reason_for_a_missing_one(tmp_path):
    outcome = Project.make(tmp_path / "p").doit("devices")
    assert outcome.code == 0, str(outcome)
    lines = {line.split()[0]: line for line in reversed(outcome.out.splitlines())}  # notes stand below the table
    assert set(TARGETS) < set(lines)
    assert "local-task" in lines["llvm-cpu"]
    assert "no driver 'metal' registered" in lines["metal"]
