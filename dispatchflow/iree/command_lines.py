"""The tools' command lines. The same words are executed, explained, and written to repro.sh."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dispatchflow.timing.protocols import Protocol
from dispatchflow.workload import ENTRY

ALLOWED_ENVIRONMENT = ("LD_LIBRARY_PATH",)
"""All that reaches a tool of the user's environment: the compiler reads more than a dozen variables, each of which
could change its output behind the key."""

DEVICE_ENVIRONMENT = (
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
)
"""What reaches tools that run modules, never the compiler: which Vulkan driver and which GPU is taken. In no key: the
driver is asked for its devices with the same variables, and the device's identity says which one it is."""

COMPILING = {"TMPDIR": "."}
"""What reaches the compiler besides: its linker's files lie where it works, where a kill leaves none for good, and have
names that need no quoting, since it gives them to a shell as they are. In no key: they are gone when it ends."""

CONFIGURATIONS = "cfg"


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """What a tool sees; enters the compile key."""
    return {"LC_ALL": "C", **{name: variables[name] for name in ALLOWED_ENVIRONMENT if name in variables}}


def device_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """What a tool sees that runs modules."""
    return environment(variables) | choice(variables)


def libraries(variables: Mapping[str, str]) -> dict[str, str]:
    """Where the loader looks first for what a driver or a library of another provider loads: part of the identity of
    their devices. Not of the CPU's: IREE's tools find all that they load beside themselves, or in the system."""
    return {name: value for name, value in variables.items() if name == "LD_LIBRARY_PATH" and value}


def choice(variables: Mapping[str, str]) -> dict[str, str]:
    """The user's choice among the devices of a driver."""
    return {name: variables[name] for name in DEVICE_ENVIRONMENT if name in variables}


_NO_FILE_NAME = re.compile(rb'@(?:"[^"\n]*/[^"\n]*"|"[^"\n]{150,}"|[\w.$-]{150,})')


def dump_of(text: bytes) -> str:
    """Where the compiler is to write the configurations that it chose for this module: it names files by its functions,
    and a user's may have a name that is too long for a file or has a `/`. Then it is `-`, its standard output."""
    return "-" if _NO_FILE_NAME.search(text) else CONFIGURATIONS


def compile_argv(
    compiler: str, flags: Sequence[str], output: str = "module.vmfb", dump: str = CONFIGURATIONS
) -> tuple[str, ...]:
    """Reads the module on stdin. Configurations are always dumped: on some backends the dump changes the bytes."""
    return (compiler, "-", *flags, f"--iree-hal-dump-executable-configurations-to={dump}", "-o", output)


def device_flags(device: str, cpus: Sequence[int]) -> tuple[str, ...]:
    """The device, with one worker pinned to each of these CPUs where it has workers."""
    pinned = (f"--task_topology_cpu_ids={','.join(map(str, cpus))}",) if device == "local-task" else ()
    return (f"--device={device}", *pinned)


def poisoned(device: Sequence[str]) -> tuple[str, ...]:
    """Where a module is called for the second time, with other bytes in memory that it does not write: one thread of
    the CPU, with the debug allocator, which fills memory with 0xCD. The runtime's other device of the CPU takes memory
    that this allocator does not see; Vulkan's allocator refuses to be wrapped (IREE 3.13), and is called as before."""
    return ("--device=local-sync", "--device_allocator=debug") if _local(device) else tuple(device)


def _local(device: Sequence[str]) -> bool:
    return bool(device) and device[0].startswith("--device=local")


def _allocator(device: Sequence[str], kind: str) -> tuple[str, ...]:
    """Only of local devices: Vulkan's own allocator refuses to be wrapped (IREE 3.13)."""
    return (f"--device_allocator={kind}",) if _local(device) else ()


def reprint_argv(tool: str, source: str = "source.mlir", output: str = "module.mlir") -> tuple[str, ...]:
    """A user's module as the compiler prints it: what a comment, a name or a place changed is gone."""
    return (tool, source, "--strip-debuginfo", "-o", output)


def run_argv(
    tool: str,
    module: str,
    device: Sequence[str],
    inputs: Sequence[str],
    outputs: Sequence[str] = ("output.bin",),
    function: str = ENTRY,
) -> tuple[str, ...]:
    """One call, results written raw. `inputs` are `4x8xf32=@file`, `4x8xf32=1` (all ones) or a bare number. Without
    `outputs`, the types of the results are printed, with their sizes."""
    return (
        tool,
        f"--module={module}",
        *device,
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
) -> tuple[str, ...]:
    """One block: warm-up, then calls for `block_s`, or exactly `iterations` once that many are known to take so long
    (finding the number costs google-benchmark as much again). `dispatches`: then once more, untimed, for the runtime's
    own account of each dispatch. `rotation`: a second module, whose function is called and calls the first one's; then
    dispatches are not told apart."""
    length = f"{iterations}x" if iterations else f"{protocol.block_s}s"
    return (
        tool,
        f"--module={module}",
        *((f"--module={rotation}",) if rotation else ()),
        *device,
        *_allocator(device, "caching"),
        f"--function={function}",
        *(f"--input={value}" for value in inputs),
        f"--benchmark_min_warmup_time={protocol.warmup_s}",
        f"--benchmark_min_time={length}",
        "--benchmark_format=json",
        *(("--dispatch_statistics=true",) if dispatches and rotation is None else ()),
    )
