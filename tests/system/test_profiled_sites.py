"""Profiles of the real runtime give every site of a program its time and number of executions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import lavapipe, loops
from support.loops import loop
from support.programs_by_hand import program
from support.project import REPOSITORY

from dispatchflow.iree.command_lines import profile_export_argv, profiled_benchmark_argv
from dispatchflow.iree.profile_events import Profile, Repetition, parse, repetitions
from dispatchflow.models.site import Program
from dispatchflow.models.site_times import ProgramTimes, program_times, read_block

pytestmark = pytest.mark.iree

LLVM_CPU = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)
VULKAN = ("--iree-hal-target-device=vulkan", "--iree-vulkan-target=vp_android_baseline_2022")
DEVICES = {"local-sync": LLVM_CPU, "local-task": LLVM_CPU, "vulkan": VULKAN}


def run(argv: Sequence[str], folder: Path, variables: dict[str, str]) -> str:
    path = os.pathsep.join([os.fspath(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = subprocess.run(
        argv, cwd=folder, env={**os.environ, "PATH": path, **variables},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.fixture(scope="session")
def vulkan() -> dict[str, str]:
    try:
        return lavapipe.environment(REPOSITORY / ".lavapipe")
    except lavapipe.Unavailable as error:
        pytest.skip(f"no Vulkan here: {error}")


@pytest.fixture(params=DEVICES)
def device(request) -> tuple[str, dict[str, str]]:
    return request.param, request.getfixturevalue("vulkan") if request.param == "vulkan" else {}


def compiled(text: str, device: str, folder: Path) -> Path:
    (folder / "m.mlir").write_text(text)
    run(["iree-compile", "m.mlir", *DEVICES[device], "-o", "m.vmfb"], folder, {})
    return folder


def profiled(
    folder: Path, device: str, inputs: Sequence[str], calls: int = 3, flush_ms: int | None = None, **variables: str
) -> tuple[Profile, tuple[Repetition, ...]]:
    flags = (f"--device={device}",)
    argv = profiled_benchmark_argv("iree-benchmark-module", "m.vmfb", flags, inputs, calls, "p", flush_ms=flush_ms)
    found = repetitions(run(argv, folder, variables))
    run(profile_export_argv("iree-profile", "p", "p.jsonl"), folder, {})
    return parse((folder / "p.jsonl").read_bytes()), found


def times_of(made: Program, profile: Profile, found: Sequence[Repetition]) -> ProgramTimes:
    times = program_times(made, [read_block(made, profile, found)])
    split = times.split
    own = sum(site.own_ns for site in times.sites)
    assert own + split.launching_ns + split.allocation_ns + split.waiting_ns + split.host_ns == split.call_ns
    assert own > 0
    assert times.steady
    return times


def two_loops(size: int) -> str:
    return loops.program(size, ("%n", "%k"), loop("r", "%x", "%n", size) + loop("s", "%r#0", "%k", size), "%s#0")


def matmul(name: str, left: str, right: str, result: str, sizes: Sequence[str], dynamic: str = "") -> str:
    m, n, k = sizes
    kind = f"tensor<{m}x{n}xf32>"
    return f"""
  %{name}e = tensor.empty({dynamic}) : {kind}
  %{name}f = linalg.fill ins(%z : f32) outs(%{name}e : {kind}) -> {kind}
  %{result} = linalg.matmul ins(%{left}, %{right} : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>)
    outs(%{name}f : {kind}) -> {kind}"""


THREE = f"""func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %v: tensor<32x64xf32>) -> tensor<8x32xf32> {{
  %z = arith.constant 0.0 : f32{matmul("p", "x", "w", "a", ["8", "32", "16"])}
{matmul("q", "a", "v", "b", ["8", "64", "32"])}
  %t = tensor.empty() : tensor<64x32xf32>
  %u = linalg.transpose ins(%v : tensor<32x64xf32>) outs(%t : tensor<64x32xf32>) permutation = [1, 0]
{matmul("r", "b", "u", "c", ["8", "32", "64"])}
  return %c : tensor<8x32xf32>
}}
"""

DYNAMIC = f"""func.func @main(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) -> tensor<?x64xf32> {{
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %d = tensor.dim %x, %c0 : tensor<?x64xf32>{matmul("p", "x", "w", "a", ["?", "64", "64"], "%d")}
{matmul("q", "a", "w", "b", ["?", "64", "64"], "%d")}
  return %b : tensor<?x64xf32>
}}
"""


def test_two_loops_with_the_same_dispatch_are_distinguished(device, tmp_path):
    name, variables = device
    made = program(*[["main_dispatch_0_matmul_64x64x64_f32"]] * 2)
    folder = compiled(two_loops(64), name, tmp_path)
    times = times_of(made, *profiled(folder, name, ["64x64xf32=0.01", "5", "2"], **variables))
    assert {site.name: site.executions for site in times.sites} == {"1": 5, "2": 2}


def test_each_dispatch_of_a_command_buffer_is_one_execution_of_its_site(device, tmp_path):
    name, variables = device
    folder = compiled(THREE, name, tmp_path)
    inputs = ["8x16xf32=1", "16x32xf32=1", "32x64xf32=1"]
    profile, found = profiled(folder, name, inputs, **variables)
    exports = [each.export for each in profile.launches]
    one = exports[: len(exports) // 6]
    assert exports == one * 6
    assert len(one) >= 3
    times = times_of(program(one), profile, found)
    assert [site.executions for site in times.sites] == [1.0] * len(one)
    assert all(site.workgroups for site in times.sites)
    assert all((site.workers is None) == (name == "vulkan") for site in times.sites)


def test_a_program_with_dynamic_sizes_has_the_times_of_its_sites(device, tmp_path):
    name, variables = device
    folder = compiled(DYNAMIC, name, tmp_path)
    made = program(["main_dispatch_0_matmul_Dx64x64_f32"] * 2)
    times = times_of(made, *profiled(folder, name, ["7x64xf32=0.1", "64x64xf32=0.1"], **variables))
    assert {site.name: site.executions for site in times.sites} == {"1": 1, "2": 1}


@pytest.mark.parametrize("first", [700, 5000])
@pytest.mark.parametrize("name", ["local-sync", "local-task"])
def test_more_dispatches_of_one_call_than_the_ring_holds_with_nothing_dropped(name, first, tmp_path):
    # The runtime's ring buffer holds 4,096 records, and a dispatch has five. On a busy machine, fewer dispatches are
    # more often recorded completely.
    folder = compiled(two_loops(4), name, tmp_path)
    inputs = ["4x4xf32=0.01", f"{first}", "300"]
    assert profiled(folder, name, inputs, calls=1)[0].dropped > 0
    for _ in range(20):  # the thread that empties the ring buffer may wait for a CPU
        profile, found = profiled(folder, name, inputs, calls=1, flush_ms=1)
        if profile.dropped == 0:
            break
    times = times_of(program(*[["main_dispatch_0_matmul_4x4x4_f32"]] * 2), profile, found)
    assert {site.name: site.executions for site in times.sites} == {"1": first, "2": 300}
