"""Call a case a few times with IREE's Tracy runtime, and capture a trace of the calls.

The Tracy runtime is a build of IREE's runtime that is instrumented for the profiler Tracy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dispatchflow.cases.case import Case
from dispatchflow.engine import provenance, site_states
from dispatchflow.engine.call import reason_of
from dispatchflow.engine.stages import Artifacts, StageExecutor
from dispatchflow.errors import ToolError
from dispatchflow.iree import command_lines
from dispatchflow.iree.targets import Device
from dispatchflow.models.site import Program
from dispatchflow.tools import processes, tracing
from dispatchflow.tools.tracing import Traced

CALLS = 20
"""The number of calls in a trace. It is small, because the trace records the time of every workgroup."""


@contextmanager
def traced(executor: StageExecutor, case: Case, device: Device) -> Iterator[Traced]:
    """Trace a few calls of a case, and yield the trace.

    The case is verified first, unless `verify=off` is set. The trace's file is removed when the context ends.

    Raises:
        SpecError: a library such as numpy computes the case.
        ToolError: this IREE has no Tracy runtime, the case cannot be run, its results are wrong with `verify=on`, or
            the capture fails.
    """
    site_states.refuse_library(case)
    runtime = tracing.runtime_beside(executor.resolver.toolchain.runtime)  # raises before anything is compiled
    found = verified(executor, case, device)
    recipe = next(iter(found.data.measured.digests))
    with executor.store.busy(), executor.store.scratch() as scratch:
        place = executor.place(scratch, device, {"module.vmfb": found.files["module.vmfb"]} | found.data.files(recipe))
        argv = command_lines.sampled_argv(
            runtime.tool("iree-benchmark-module"),
            "module.vmfb",
            place.device_flags,
            found.data.inputs(recipe),
            f"{CALLS}x",
            case.operation.function,
            [value for value, _ in found.data.parameters],
        )
        program = tracing.Program(argv, scratch, place.environment, "stdout", "stderr", device.cpus)
        limits = executor.limits
        made = tracing.capture(runtime, program, scratch, limits.block_s, limits.memory_bytes)
        if made.failure:
            said = reason_of(made.outcome, processes.shortened(scratch / "stderr"))
            raise ToolError("the traced calls failed", {"case": case.name, "found": said})
        yield made


def verified(executor: StageExecutor, case: Case, device: Device) -> Artifacts:
    """Verify a case, and return its compiled code and its inputs.

    With `verify=off`, the case is not verified.

    Raises:
        ToolError: there is no device, the case's code or inputs could not be made, or `verify=on` is set and the
            results are wrong.
    """
    if device.absent is not None:
        raise ToolError(f"{case.name} cannot be run", {"found": device.absent})
    verdict = executor.verify(case, device) if executor.resolver.settings.verify != "off" else None
    found = executor.artifacts(case, expected=False)
    if found is None:
        step = executor.resolver.chain(case).failure
        raise ToolError(f"{case.name} cannot be run", {"found": step.why if step else "its inputs do not exist"})
    if verdict is not None and not verdict.ok and executor.resolver.settings.verify == "on":
        raise ToolError(f"{case.name} is not traced: its results are wrong", {"found": verdict.reason}, _WARN)
    return found


_WARN = "verify=warn traces it nevertheless."


def program_of(executor: StageExecutor, case: Case) -> Program | None:
    """Return the sites of a case: the places in its program that launch a dispatch.

    Returns None if the sites cannot be found."""
    record = provenance.of_case(executor, case)
    return provenance.program_of(executor, record.outputs) if record is not None and record.ok else None
