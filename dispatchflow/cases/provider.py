"""What a library can compute of a program, and the text of its call."""

from __future__ import annotations

from dispatchflow.iree.targets import Target
from dispatchflow.libraries.providers import Library
from dispatchflow.mlir.types import TensorType
from dispatchflow.operations import Operation
from dispatchflow.workload import Workload


def unsupported(library: Library, program: Workload, target: Target) -> str | None:
    """Why it cannot compute this, None when it can. The reason of a skip."""
    if not isinstance(program, Operation):
        return f"a user's module is compiled; {library.name} knows operations only"
    if target.driver not in library.devices:
        return f"{library.name} does not run on {target.name}"
    if packed := [element.mlir for element in program.types.operands if element.bits < 8]:
        return f"{library.name} has no {packed[0]} with two elements in a byte"
    return program.illegal(library.name) or program.library_lacks(library)


def call_text(library: Library, operation: Operation) -> str:
    """Python text with a function `main` of the operands. Equal calls, equal bytes: no names, no sizes beyond what the
    call says."""
    names = ", ".join(f"x{i}" for i in range(len(operation.operands())))
    value = library.whole.format(value=operation.library_call(library))
    return f"{library.imports}\n\n\ndef main({names}):\n    return {value}\n"


def operand_types(program: Workload) -> list[TensorType]:
    """What its call is given. Of a user's module there is no call."""
    assert isinstance(program, Operation)
    return [operand.type for operand in program.operands()]
