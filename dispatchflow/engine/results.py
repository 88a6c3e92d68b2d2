"""Call a case once and return its results as arrays. The results are not verified."""

from __future__ import annotations

from dispatchflow.cases.case import Case
from dispatchflow.cases.module import Module, output_names
from dispatchflow.engine import verify_module
from dispatchflow.engine.call import LibraryCall, ModuleCall, Result
from dispatchflow.engine.stages import Artifacts, StageExecutor
from dispatchflow.errors import ToolError
from dispatchflow.iree.targets import Device
from dispatchflow.operations import Operation
from dispatchflow.verification import inputs
from dispatchflow.verification.call_result import CallResult


def of_case(executor: StageExecutor, case: Case, device: Device) -> tuple[str, list[CallResult]]:
    """Call a case once; return the name of the set of inputs that was used, and the results.

    The inputs are those that measurements use. The call is not recorded.

    Raises:
        ToolError: the code or the inputs could not be made, the case's device is absent, or the call failed.
    """
    found = executor.artifacts(case, expected=False)
    if found is None:
        step = executor.resolver.chain(case).failure
        raise ToolError(f"{case.name} cannot be run", {"found": step.why if step else "its inputs do not exist"})
    if device.absent is not None:
        raise ToolError(f"{case.name} cannot be run", {"found": device.absent})
    (recipe,) = found.data.measured.digests
    with executor.store.busy(), executor.store.scratch() as scratch:
        place = executor.place(scratch, device, found.files)
        if case.library is not None:
            place = LibraryCall.of(place, case, executor.resolver.installed(case))
        program = case.operation
        if isinstance(program, Module):
            return recipe, _of_module(executor, place, program, found)
        assert isinstance(program, Operation)
        return recipe, [_of_operation(place, program, found, recipe)]


def _of_operation(place: ModuleCall, operation: Operation, found: Artifacts, recipe: str) -> CallResult:
    (name,) = output_names([""])
    _check(place.call(found.data, recipe, (name,), operation.function))
    result, path = operation.result(), place.scratch / name
    size = path.stat().st_size if path.exists() else 0
    if size != result.nbytes:
        raise ToolError(f"{size} B were written; the result has {result.nbytes}")
    return CallResult(result.spelling, inputs.read(path, inputs.dtype_of(result.element), result.shape))


def _of_module(executor: StageExecutor, place: ModuleCall, program: Module, found: Artifacts) -> list[CallResult]:
    declared = executor.resolver.supplies.declaration(program)
    assert declared is not None
    names = output_names(declared.results)
    types = verify_module.called(place, program, found.data, declared.results, names)
    if isinstance(types, tuple):
        _check(types)
    contents = [(place.scratch / name).read_bytes() for name in names]
    return [
        CallResult(
            str(type), verify_module.array_of(content, str(type)), is_bytes=bool(verify_module.untyped([str(type)]))
        )
        for type, content in zip(types, contents, strict=True)
    ]


def _check(failure: Result | None) -> None:
    if failure is not None:
        raise ToolError(failure[1] or "the call failed")
