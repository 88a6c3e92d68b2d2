"""Build command lines for IREE's tools.

The command lines are executed, shown to the user, and written to repro.sh."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dispatchflow.timing.protocols import Protocol
from dispatchflow.workload import ENTRY

ALLOWED_ENVIRONMENT = ("LD_LIBRARY_PATH",)
"""The variables of the user's environment that every tool gets; the compiler gets only these.

Other variables could change the compiler's output, but are not in the cache key."""

DEVICE_ENVIRONMENT = (
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
)
"""The variables that choose the Vulkan driver and the GPU.

Only tools that run modules get these variables. Cache keys contain the identity of the chosen device instead of the
variables."""

COMPILING = {"TMPDIR": "."}
"""Additional variables for the compiler, whose linker writes temporary files into `TMPDIR`.

`.` is the compiler's working directory, which is removed even if dispatchflow is killed. The compiler passes names of
temporary files to a shell without quotes; names of files in `.` need no quotes."""

CONFIGURATIONS = "cfg"
"""The directory for dumped lowering configurations, inside the compiler's working directory."""


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return a tool's environment: the C locale, and the `variables` that `ALLOWED_ENVIRONMENT` lists.

    `variables` is the user's environment. The result is part of the cache key of a compile."""
    return {"LC_ALL": "C", **{name: variables[name] for name in ALLOWED_ENVIRONMENT if name in variables}}


def device_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a tool that runs modules.

    It has the variables that `environment` returns, and the variables that choose a Vulkan driver or a GPU."""
    return environment(variables) | choice(variables)


def libraries(variables: Mapping[str, str]) -> dict[str, str]:
    """Return a dict with only the entry `LD_LIBRARY_PATH` of `variables`.

    The dict is empty if the entry is absent or its value is empty."""
    # GPU drivers and libraries such as numpy load shared libraries from it, so cache keys contain it.
    return {name: value for name, value in variables.items() if name == "LD_LIBRARY_PATH" and value}


def choice(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the user's environment that choose the Vulkan driver or the GPU."""
    return {name: variables[name] for name in DEVICE_ENVIRONMENT if name in variables}


_NO_FILE_NAME = re.compile(rb'@(?:"[^"\n]*/[^"\n]*"|"[^"\n]{150,}"|[\w.$-]{150,})')


def dump_of(text: bytes) -> str:
    """Return where the compiler dumps lowering configurations: a directory, or `-` for stdout.

    The compiler names the dumped files after the functions of the module `text`. If one of these names cannot be a file
    name, the result is `-`."""
    return "-" if _NO_FILE_NAME.search(text) else CONFIGURATIONS


def compile_argv(
    compiler: str, flags: Sequence[str], output: str = "module.vmfb", dump: str = CONFIGURATIONS
) -> tuple[str, ...]:
    """Return a command line of the compiler that reads the module from stdin.

    The compiler also dumps lowering configurations into the directory `dump`, or to stdout if `dump` is `-`."""
    # The dump is never turned off, because on some backends it changes the bytes of the vmfb.
    return (compiler, "-", *flags, f"--iree-hal-dump-executable-configurations-to={dump}", "-o", output)


def phase_argv(
    compiler: str,
    flags: Sequence[str],
    begin: str | None,
    end: str | None,
    output: str,
    dump: str = CONFIGURATIONS,
) -> tuple[str, ...]:
    """Return a command line that runs only some of the compiler's phases on the module on stdin.

    These are the phases after `begin`, up to and including `end`. None stands for the beginning or the end of the
    compile. If `end` is given, the module is written as bytecode. `--compile-from=flow` in `flags` is dropped."""
    from dispatchflow.iree.flags import FORMED  # an idle run does not need flags

    flags = [flag for flag in flags if flag != FORMED]
    cut = [f"--compile-from={begin}"] if begin else []
    cut += [f"--compile-to={end}", "--emit-mlir-bytecode"] if end else []
    return compile_argv(compiler, (*flags, *cut), output, dump)


def device_flags(device: str, cpus: Sequence[int]) -> tuple[str, ...]:
    """Return the flags that choose a device. `local-task` gets one worker pinned to each of `cpus`."""
    pinned = (f"--task_topology_cpu_ids={','.join(map(str, cpus))}",) if device == "local-task" else ()
    return (f"--device={device}", *pinned)


def poisoned(device: Sequence[str]) -> tuple[str, ...]:
    """Return device flags with which the runtime fills new memory with 0xCD on the CPU.

    If a call with these flags gives other results than a call without them, the module may have read uninitialized
    memory. For other devices, the flags stay the same."""
    # Not `local-task`, which would use memory that this allocator does not fill. Vulkan's allocator, for example,
    # cannot be wrapped in the debug allocator (IREE 3.13).
    return ("--device=local-sync", "--device_allocator=debug") if _local(device) else tuple(device)


def _local(device: Sequence[str]) -> bool:
    return bool(device) and device[0].startswith("--device=local")


def _allocator(device: Sequence[str], kind: str) -> tuple[str, ...]:
    """Return the option that puts an allocator of the given kind around a CPU device's own allocator.

    The result is empty for other devices: Vulkan's allocator, for example, cannot be wrapped (IREE 3.13)."""
    return (f"--device_allocator={kind}",) if _local(device) else ()


def reprint_argv(tool: str, source: str = "source.mlir", output: str = "module.mlir") -> tuple[str, ...]:
    """Return a command line of iree-opt that prints a user's module in the compiler's formatting.

    Edits of comments, value names and source locations do not change the printed text."""
    return (tool, source, "--strip-debuginfo", "-o", output)


def run_argv(
    tool: str,
    module: str,
    device: Sequence[str],
    inputs: Sequence[str],
    outputs: Sequence[str] = ("output.bin",),
    function: str = ENTRY,
    parameters: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return a command line for one call that writes the results as raw bytes.

    An input is a tensor from a file (`4x8xf32=@file`), a tensor of equal elements (`4x8xf32=1`), or a scalar (`7`).
    Each of `parameters` names a scope and a file with weights: `model=w.irpa`. If `outputs` is empty, the tool prints
    the types and sizes of the results."""
    return (
        tool,
        f"--module={module}",
        *device,
        *(f"--parameters={value}" for value in parameters),
        f"--function={function}",
        *(f"--input={value}" for value in inputs),
        *([f"--output=@{name}" for name in outputs] or ["--output_max_element_count=0"]),
    )


def block_argv(
    tool: str,
    module: str,
    device: Sequence[str],
    inputs: Sequence[str],
    protocol: Protocol,
    iterations: int | None = None,
    dispatches: bool = True,
    function: str = ENTRY,
    rotation: str | None = None,
    parameters: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return a command line for one block of a benchmark: a warm-up, then timed calls.

    Args:
        inputs, parameters: as for `run_argv`.
        protocol: the durations of the warm-up (`warmup_s`) and of the timed calls (`block_s`).
        iterations: the number of timed calls. If None, Google Benchmark searches for the number of calls that takes
            `block_s`. The search takes about `block_s` in addition.
        dispatches: whether to make one more call to collect the runtime's statistics of each dispatch. This call is not
            timed.
        rotation: a second module, which calls `module` with another copy of the inputs each time. With a rotation,
            there are no dispatch statistics.
    """
    length = f"{iterations}x" if iterations else f"{protocol.block_s}s"
    return (
        tool,
        f"--module={module}",
        *((f"--module={rotation}",) if rotation else ()),
        *device,
        *_allocator(device, "caching"),
        *(f"--parameters={value}" for value in parameters),
        f"--function={function}",
        *(f"--input={value}" for value in inputs),
        f"--benchmark_min_warmup_time={protocol.warmup_s}",
        f"--benchmark_min_time={length}",
        "--benchmark_format=json",
        *(("--dispatch_statistics=true",) if dispatches and rotation is None else ()),
    )


def profiled_benchmark_argv(
    tool: str,
    module: str,
    device: Sequence[str],
    inputs: Sequence[str],
    calls: int,
    output: str = "calls.ireeprof",
    function: str = ENTRY,
    flush_ms: int | None = None,
    parameters: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return a command line that profiles two repetitions of a benchmark.

    Each repetition calls the function `calls` times. The first repetition is the warm-up.

    Args:
        inputs, parameters: as for `run_argv`.
        flush_ms: the interval in ms at which the runtime empties its buffer of 4,096 events. If None, the buffer is
            emptied only after each call.
    """
    return (
        tool,
        f"--module={module}",
        *device,
        *_allocator(device, "caching"),
        f"--function={function}",
        *(f"--input={value}" for value in inputs),
        *(f"--parameters={value}" for value in parameters),
        f"--benchmark_min_time={calls}x",
        # The first repetition replaces the tool's own warm-up, whose number of calls is not reported.
        "--benchmark_repetitions=2",
        "--benchmark_format=json",
        *_profiling(device, output),
        *((f"--device_profiling_flush_interval_ms={flush_ms}",) if flush_ms else ()),
    )


def recorded_argv(run: Sequence[str], recording: str = "load.ireereplay") -> tuple[str, ...]:
    """Return `run`, a command line from `run_argv`, with a flag to record the module's load and call."""
    return (*run, f"--device_replay_output={recording}")


def profiled_replay_argv(
    tool: str, device: Sequence[str], loads: int, recording: str = "load.ireereplay", output: str = "calls.ireeprof"
) -> tuple[str, ...]:
    """Return a command line that replays a recording repeatedly, and writes a profile of all replays.

    The recording has the device commands of one load and one call of a program. `loads` is the number of replays."""
    return (tool, *device, recording, f"--benchmark_min_time={loads}x", *_profiling(device, output))


def _profiling(device: Sequence[str], output: str) -> tuple[str, ...]:
    mode = "host-execution,queue-events" if _local(device) else "dispatch-events,queue-events,device-queue-events"
    return (f"--device_profiling_mode={mode}", f"--device_profiling_output={output}")


def sampled_argv(
    tool: str,
    module: str,
    device: Sequence[str],
    inputs: Sequence[str],
    length: str,
    function: str = ENTRY,
    parameters: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return a command line that calls a function repeatedly, to sample its instructions or to trace it.

    `length` is either a time such as `0.5s`, or a number of calls such as `20x`."""
    return (
        tool,
        f"--module={module}",
        *device,
        *_allocator(device, "caching"),
        *(f"--parameters={value}" for value in parameters),
        f"--function={function}",
        *(f"--input={value}" for value in inputs),
        f"--benchmark_min_time={length}",
    )


def profile_export_argv(tool: str, profile: str = "calls.ireeprof", output: str = "calls.jsonl") -> tuple[str, ...]:
    """Return a command line that exports a profile as JSON lines, for `iree/profile_events.py`."""
    return (tool, "export", "--format=ireeperf-jsonl", f"--output={output}", profile)
