"""Define the programs that compute cases with a library, such as numpy, instead of IREE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath

from dispatchflow.cases.module import ELEMENT_TYPES, File, Module, element_of, sizes_of
from dispatchflow.iree.targets import Target
from dispatchflow.keys import Digest, Ingredient, digest_of, key_of
from dispatchflow.libraries.providers import Library
from dispatchflow.mlir.types import TensorType
from dispatchflow.operations import Operation
from dispatchflow.workload import Workload

MODEL = "model"
"""The folder that contains a model's files, inside the working directory of a tool."""
_OUTPUT = "module"
"""The name of the output of the stage `emit` that is the program's main file."""


@dataclass(frozen=True, slots=True)
class LibraryProgram:
    """A program that a library runs: Python text that computes an operation, or the files of a model."""

    main: str
    """The name of the main file, which the script `_harness.py` loads to run the program."""
    digest: Digest
    """A hash of the contents of all files of the program.

    For a model, the names by which the model refers to its weights are hashed too."""
    content: bytes | File
    """The content of the main file."""
    beside: tuple[tuple[str, File], ...] = ()
    """(name, content) of each file besides the main file; for example, a model's weights."""
    problem: str | None = None
    """An error message if a model names weights outside of its own directory; None if it does not.

    The stage `emit` fails with this message, because such files cannot be placed in a working directory."""

    @property
    def outputs(self) -> dict[str, bytes | File]:
        """A dict from the name of each output of the stage `emit` to its content."""
        return {_OUTPUT: self.content, **dict(self.beside)}

    def files(self, outputs: Mapping[str, Digest]) -> dict[str, Digest]:
        """Return a dict from the name to the digest of each file of the program.

        `outputs` maps the name of each output of the stage `emit` to its digest."""
        return {self.main if name == _OUTPUT else name: digest for name, digest in outputs.items()}


def unsupported(library: Library, program: Workload, target: Target) -> str | None:
    """Return why `library` cannot compute `program` on `target`; None if it can."""
    if program.kind != library.computes:
        return f"{library.name} computes {library.computes}, not {program.kind}"
    if target.driver not in library.devices:
        return f"{library.name} does not run on {target.name}"
    if not isinstance(program, Operation):
        return None
    if packed := [element.mlir for element in program.types.operands if element.bits < 8]:
        return f"{library.name} has no {packed[0]} with two elements per byte"
    return program.illegal(library.name) or program.library_lacks(library)


def program_of(library: Library, workload: Workload) -> LibraryProgram:
    if isinstance(workload, Module):
        files = model_files(workload)
        (main, source), *beside = files.items()
        identity: dict[str, Ingredient] = {
            "source": source.digest,
            "weights": tuple((name, file.digest) for name, file in beside),
        }
        return LibraryProgram(main, Digest(key_of("model", identity)), source, tuple(beside), misplaced(workload))
    assert isinstance(workload, Operation)
    text = call_text(library, workload).encode()
    return LibraryProgram("call.py", digest_of(text), text)


def call_text(library: Library, operation: Operation) -> str:
    """Return the text of a Python program with which a library computes an operation.

    The text defines a function `main` that takes the operands. If two operations are computed by the same expression,
    their texts are equal."""
    names = ", ".join(f"x{i}" for i in range(len(operation.operands())))
    value = library.whole.format(value=operation.library_call(library))
    return f"{library.imports}\n\n\ndef main({names}):\n    return {value}\n"


def model_files(program: Module) -> dict[str, File]:
    """Return the files of a model, as a dict from a path such as `model/net.onnx` to the file.

    The files are placed at these paths in the working directory of a process. The model's own file comes first, and
    the files with its weights follow."""
    named = [(PurePath(program.source.path).name, program.source), *program.objects]
    return {str(PurePosixPath(MODEL, name)): file for name, file in named}


def misplaced(program: Module) -> str | None:
    """Return an error message if a model refers to weights outside of the model's directory.

    Returns None if all weights are in this directory or below it."""
    for written, _ in program.objects:
        if PurePosixPath(written).is_absolute() or ".." in PurePosixPath(written).parts:
            return f"{PurePath(program.source.path).name} names weights outside of its own directory: {written}"
    return None


def unpassed(library: str, types: Sequence[str]) -> str | None:
    """Return why a library cannot take or return values of the given types; None if it can.

    In onnxruntime 1.32, a model's inputs and results cannot have a type that is missing in numpy, such as bf16."""
    odd = next((found for type in types if (found := element_of(type)).startswith(("bf16", "f8", "f4"))), None)
    return odd and f"{library} takes and returns no {odd}: its Python interface has numpy's types only"


def operand_types(program: Workload, arguments: Sequence[str]) -> list[TensorType]:
    """Return the types of the values that a library's program takes.

    For a model, `arguments` has these types as IREE's tools spell them: `4x8xf32`. For an operation, `arguments`
    is ignored."""
    # For an operation, `arguments` may be the types for IREE's runtime, which takes two f4 elements as one i8.
    if isinstance(program, Operation):
        return [operand.type for operand in program.operands()]
    return [_tensor(argument) for argument in arguments]


def _tensor(spelling: str) -> TensorType:
    sizes = [size or 0 for size in sizes_of(spelling) or ()]
    return TensorType(tuple(sizes), ELEMENT_TYPES[element_of(spelling)])
