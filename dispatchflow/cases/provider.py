"""Cases of libraries: why one is unsupported, and the text of a call."""

from __future__ import annotations

from dispatchflow.iree.targets import Target
from dispatchflow.libraries.providers import Library
from dispatchflow.mlir.types import TensorType
from dispatchflow.operations import Operation
from dispatchflow.workload import Workload


def unsupported(library: Library, program: Workload, target: Target) -> str | None:
    """Return why a library cannot compute a program, as the reason of a skip; None if it can."""
    if not isinstance(program, Operation):
        return f"{library.name} computes operations, not a user's module"
    if target.driver not in library.devices:
        return f"{library.name} does not run on {target.name}"
    if packed := [element.mlir for element in program.types.operands if element.bits < 8]:
        return f"{library.name} has no {packed[0]} with two elements per byte"
    return program.illegal(library.name) or program.library_lacks(library)


def call_text(library: Library, operation: Operation) -> str:
    """Return Python text that defines a function `main` of the operands.

    Equal calls have equal bytes: the text has no names, and only the sizes that the call needs."""
    names = ", ".join(f"x{i}" for i in range(len(operation.operands())))
    value = library.whole.format(value=operation.library_call(library))
    return f"{library.imports}\n\n\ndef main({names}):\n    return {value}\n"


def operand_types(program: Workload) -> list[TensorType]:
    """Return the types of the arguments of a library's call; a user's module has no such call."""
    assert isinstance(program, Operation)
    return [operand.type for operand in program.operands()]
