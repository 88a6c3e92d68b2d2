"""Targets that are not this CPU: what is compiled for them, and what happens where their device is or is not."""

import json
import subprocess

import pytest
from support import lavapipe
from support.project import REPOSITORY, Project, environment, sweep, write_script

from dispatchflow.cli.commands.devices import table_of
from dispatchflow.errors import SpecError
from dispatchflow.iree import command_lines
from dispatchflow.iree.targets import TARGETS, named
from dispatchflow.planning import sweep_words
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
    ],
)
def test_gpu_that_does_not_run_a_target_is_not_its_device(said, target, absent, tmp_path):
    tool = tmp_path / "tool"
    write_script(tool, f"printf '# --device=driver://0\\n- {said}\\n# --device=driver://1\\n'")
    opened = Workspace(tmp_path, {})
    driver = TARGETS[target].driver
    opened._devices[driver, None] = devices.found(driver, str(tool), opened.settings.limits)
    device = opened.device(TARGETS[target], None)
    assert (device.uri, device.absent) == ("driver://0", absent)


@pytest.mark.parametrize("capability", ["9.0", "8.9"])
def test_hopper_card_is_told_whose_code_it_runs(capability, tmp_path):
    tool = tmp_path / "tool"
    write_script(tool, f"printf '# --device=cuda://0\\n- gpu-compute-capability: {capability}\\n'")
    opened = Workspace(tmp_path, {})
    device = devices.found("cuda", str(tool), opened.settings.limits)
    opened._devices |= {(target.driver, None): device for target in TARGETS.values()}
    note = (
        "cuda://0 is sm_90: IREE does not know it. A Hopper card runs the code of cuda-sm_89: its driver compiles it."
    )
    assert (note in table_of(opened).splitlines()) == (capability == "9.0")


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
    assert outcome.code == 0, str(outcome)
    assert (row["case"], row["code_bytes"] > 0) == (f"matmul_16x16x16_f32t_f32t_f32t_default@{target}", True)
    assert f"no device: {row['reason']} (1 case, not run)" in outcome.out
    again = project.doit("protocol=fast")
    assert "nothing made" in again.out


def test_what_chooses_a_driver_reaches_what_runs_and_never_the_compiler():
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
        found[value] = devices.found("cuda", str(tool), limits)
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
    device = devices.found("cuda", str(tool), Workspace(tmp_path, {}).settings.limits)
    assert device.identity == {"driver": "cuda", "driver_build": "build of cuda", "name": "card"}


@pytest.mark.parametrize(
    ("driver", "variable"),
    [("cuda", "CUDA_VISIBLE_DEVICES"), ("hip", "ROCR_VISIBLE_DEVICES"), ("hip", "HIP_VISIBLE_DEVICES")],
)
def test_gpu_that_the_user_chose_is_the_one_that_is_asked(driver, variable, tmp_path, monkeypatch):
    tool = tmp_path / "tool"
    write_script(tool, f'printf "# --device={driver}://GPU-${{{variable}:-0}}\\nname: card ${{{variable}:-0}}\\n"')
    limits = Workspace(tmp_path, {}).settings.limits
    monkeypatch.delenv(variable, raising=False)
    first = devices.found(driver, str(tool), limits)
    monkeypatch.setenv(variable, "1")
    second = devices.found(driver, str(tool), limits)
    assert (first.uri, second.uri) == (f"{driver}://GPU-0", f"{driver}://GPU-1")
    assert (first.identity["name"], second.identity["name"]) == ("card 0", "card 1")


@pytest.fixture(scope="session")
def vulkan() -> dict[str, str]:
    """The environment in which there is a Vulkan device: lavapipe, downloaded beside this checkout."""
    try:
        return lavapipe.environment(REPOSITORY / ".lavapipe")
    except lavapipe.Unavailable as error:
        pytest.skip(f"no Vulkan here: {error}")


@pytest.mark.iree
def test_vulkan_is_verified_and_measured(vulkan, tmp_path):
    project = Project.make(tmp_path / "p", sweep(m=24, n=16, k=40, target="vulkan", threads=[1, 2]))
    outcome = project.doit("protocol=fast", **vulkan)
    rows = project.rows()
    assert outcome.code == 0, str(outcome)
    assert len(rows) == 1  # threads are none of its axes
    assert {row["verification"] for row in rows} == {"within bound"}
    assert all(row["median_ns"] > 0 and row["device"].startswith("vulkan://") for row in rows)
    assert all(0 < row["percent_of_peak"] < 100 for row in rows)  # the device was calibrated
    # Its own anchors, which run there. A row shows them only where blocks are enough for an interval.
    session = (
        "select conditions ->> '$.session.anchors_ns' from measurement where ingredients ->> '$.protocol' like 'fast%'"
    )
    assert [len(json.loads(anchors)) for (anchors,) in project.query(session)] == [2]
    assert "nothing made" in project.doit("protocol=fast", **vulkan).out
    repeated = subprocess.run(
        [project.root / f"build/{rows[0]['case']}/repro.sh", "benchmark"],
        env=environment(vulkan), capture_output=True, text=True,
    )  # fmt: skip
    assert repeated.returncode == 0, repeated.stderr


VULKAN = {
    "matmul": ({"shape": "33x65x40", "layout": "tt,tn,nt,nn", "accumulate": "no,yes"}, 8),
    "conv2d": ({"shape": "2x11x9x5x6x3x2", "stride": "1,2", "padding": "0,1"}, 4),
    "softmax": ({"shape": "17x130"}, 1),
    "tiles": ({"operation": "matmul", "shape": "96x80x66,7x9x3", "tuning": "base_vectorize_64x64_8x8x4"}, 2),
}


@pytest.mark.iree
@pytest.mark.parametrize("operation", VULKAN)
def test_operations_are_right_on_vulkan(operation, vulkan, tmp_path):
    words, count = VULKAN[operation]
    variables = [f"{word}={value}" for word, value in {"operation": operation, "target": "vulkan", **words}.items()]
    project = Project.make(tmp_path / "p")

    outcome = project.doit(*variables, "verify", **vulkan)

    assert outcome.code == 0, str(outcome)
    verified = [
        json.loads(facts)["verification"]
        for (facts,) in project.query("select facts from record where stage = 'verify'")
    ]
    assert verified == ["within bound"] * count  # bit by bit on exact inputs, where it has such


def test_lavapipe_is_libraries_and_what_they_need_through_libraries():
    needs = """\
libvulkan1
  Depends: libc6
    Depends: libx11-6
mesa-vulkan-drivers
  Depends: python3
 |Depends: libllvm15
  Depends: <python3:any>
libx11-6
python3
  Depends: libssl3
libllvm15
  PreDepends: libz3-4
"""
    assert lavapipe._libraries(needs) == ["libllvm15", "libvulkan1", "libx11-6", "libz3-4", "mesa-vulkan-drivers"]


@pytest.mark.parametrize(
    ("apt", "says"),
    [
        (None, "there is no apt here"),
        ("echo 'E: Failed to fetch http://x  Could not resolve x' >&2; exit 100", "Could not resolve"),
        ("echo 'W: Failed to fetch http://x  Could not resolve x' >&2", "Could not resolve"),
    ],
)
def test_lavapipe_that_cannot_be_had_says_why_and_leaves_nothing(apt, says, tmp_path, monkeypatch):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("apt-get", "apt-cache", "dpkg-deb") if apt else ():
        write_script(tools / name, apt)
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(lavapipe.Unavailable, match=says):
        lavapipe.environment(tmp_path / "lavapipe")
    assert not list((tmp_path / "lavapipe").iterdir())


def test_reason_of_no_device_is_the_drivers_without_its_place_and_a_list_that_is_empty():
    said = "iree/hal.c:63: UNAVAILABLE; HIP runtime library 'libamdhip64.so' not available: searched path: \n"
    assert devices._reason(said) == "UNAVAILABLE; HIP runtime library 'libamdhip64.so' not available: searched path"


@pytest.mark.parametrize(
    ("name", "flag", "driver"),
    [
        ("llvm-cpu-znver4", "--iree-llvmcpu-target-cpu=znver4", "local"),
        ("llvm-cpu-skylake-avx512", "--iree-llvmcpu-target-cpu=skylake-avx512", "local"),
        ("cuda-sm_75", "--iree-cuda-target=sm_75", "cuda"),
        ("rocm-gfx950", "--iree-rocm-target=gfx950", "hip"),
    ],
)
def test_any_cpu_or_gpu_can_be_named_as_the_compiler_calls_it(name, flag, driver):
    target = named(name)
    assert (target.name, target.driver, target.gpu) == (name, driver, None)
    assert flag in target.flags


@pytest.mark.parametrize(
    "name",
    [
        *("cuda", "cuda-sm_90", "cuda-ampere", "cuda-native", "rocm-x", "rocm-host"),
        *("llvm-cpu-", "llvm-cpu-znver4-2t", "llvm-cpu-host", "llvm-cpu-native", "a-b"),
    ],
)
def test_what_is_no_targets_name_names_none(name):
    assert named(name) is None


def test_word_for_this_machines_cpu_is_refused_with_the_target_that_resolves_it():
    with pytest.raises(SpecError) as caught:
        sweep_words.targets("llvm-cpu-host", "here")
    assert caught.value.hint == "This machine's CPU is llvm-cpu."


def test_targets_of_the_table_are_named_too():
    assert all(named(name) is target for name, target in TARGETS.items())


OTHERS = {
    "llvm-cpu-x86-64": (0, "1 case: 1 emitted, 1 compiled"),
    "llvm-cpu-diamondrapids": (0, "no device: this CPU has no "),
    "llvm-cpu-znver99": (2, "the compiler does not know 'llvm-cpu-znver99'"),
    "cuda-sm_999": (2, "Of this backend there are cuda-sm_80, cuda-sm_86"),
}


@pytest.mark.iree
@pytest.mark.parametrize("target", OTHERS)
def test_cpus_and_gpus_outside_the_table_are_the_compilers_to_know(target, tmp_path):
    code, said = OTHERS[target]
    outcome = Project.make(tmp_path / "p").doit("m=4", "n=4", "k=4", "threads=1", f"target={target}", "verify")
    assert outcome.code == code, str(outcome)
    assert said in outcome.out + outcome.err


@pytest.mark.iree
def test_devices_lists_every_target_and_why_one_is_missing(tmp_path):
    outcome = Project.make(tmp_path / "p").doit("devices")
    assert outcome.code == 0, str(outcome)
    lines = {line.split()[0]: line for line in reversed(outcome.out.splitlines())}  # notes stand below the table
    assert set(TARGETS) < set(lines)
    assert "local-task" in lines["llvm-cpu"]
    assert "no driver 'metal' registered" in lines["metal"]
