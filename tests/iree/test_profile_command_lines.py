"""The commands that record and export the profile of a benchmark have the expected arguments.

The benchmark tool's own warm-up is off, because the tool does not report how many calls its warm-up makes."""

import pytest

from dispatchflow.iree.command_lines import profile_export_argv, profiled_benchmark_argv


def argv(device, **more):
    return profiled_benchmark_argv("bench", "m.vmfb", (f"--device={device}",), ["4xf32=1"], 20, **more)


def test_the_command_line_of_a_profiled_benchmark_is_as_specified():
    assert argv("local-task", function="f", flush_ms=1) == (
        "bench",
        "--module=m.vmfb",
        "--device=local-task",
        "--device_allocator=caching",
        "--function=f",
        "--input=4xf32=1",
        "--benchmark_min_time=20x",
        "--benchmark_repetitions=2",
        "--benchmark_format=json",
        "--device_profiling_mode=host-execution,queue-events",
        "--device_profiling_output=calls.ireeprof",
        "--device_profiling_flush_interval_ms=1",
    )


@pytest.mark.parametrize("device", ["vulkan://x", "local-sync"])
def test_a_profiled_benchmark_has_no_flush_interval_or_warm_up_by_default(device):
    assert not [flag for flag in argv(device) if "flush" in flag or "warmup" in flag]


def test_a_gpu_has_events_of_its_own():
    found = argv("vulkan://x")
    assert "--device_profiling_mode=dispatch-events,queue-events,device-queue-events" in found
    assert not [flag for flag in found if "allocator" in flag]


def test_the_command_line_of_a_profile_export_is_as_specified():
    assert profile_export_argv("iree-profile") == (
        "iree-profile",
        "export",
        "--format=ireeperf-jsonl",
        "--output=calls.jsonl",
        "calls.ireeprof",
    )
