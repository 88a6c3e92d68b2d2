"""The providers that compute a case: IREE, or a library such as numpy.

A library does not run the case's MLIR module. It runs a small Python program or a model file instead. The Python
program evaluates the expression that `Operation.library_call` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dispatchflow.iree.command_lines import libraries
from dispatchflow.iree.targets import LOCAL, Device, Target
from dispatchflow.keys import Digest, Ingredient, key_of
from dispatchflow.mlir.types import ElementType, Signature
from dispatchflow.workload import Kind

if TYPE_CHECKING:
    from dispatchflow.libraries.installed import Installed

IREE = "iree"

HARNESS = 1
"""The version of `_harness.py`. Raise it when you change how the script runs or times a call."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library that computes operations or runs model files in place of IREE.

    The fields `imports`, `casts`, `whole` and `wide_sums` are used only if the library computes operations."""

    name: str
    """The library's name in a spec. Its package and its Python module have the same name."""
    devices: Mapping[str, str] = field(hash=False)
    """A dict from the name of an IREE driver to the library's name for the driver's devices.

    For example, PyTorch's name for IREE's `hip` is `cuda`."""
    install: str
    """The command that installs the library."""
    computes: Kind = Kind.OPERATIONS
    imports: str = ""
    """The import statements at the beginning of the Python program that calls the library."""
    casts: str = ""
    """A template of a Python expression that casts `{value}` to the type with the numpy name `{element}`."""
    whole: str = ""
    """A template of a Python expression that gives `{value}` in row-major memory.

    The expression makes a copy if `{value}` is a transposed view."""
    wide_sums: bool = False
    """True if the library adds narrow floats in a wider type and rounds each sum once."""

    def cast(self, value: str, element: ElementType) -> str:
        return self.casts.format(value=value, element=element.numpy_name)

    def operands(self, signature: Signature, count: int) -> list[str]:
        """Return the Python expressions of the operands, cast to the accumulator's type if necessary.

        Without a cast, the expression is the operand's name: `x0`, `x1`, …. A library with `wide_sums` needs no casts
        if all operands and the result have the same float type."""
        names, elements = [f"x{i}" for i in range(count)], [*signature.operands, signature.accumulator]
        if self._native(signature):
            return names
        wide = signature.accumulator
        return [
            name if elements[min(i, len(elements) - 1)] is wide else self.cast(name, wide)
            for i, name in enumerate(names)
        ]

    def rounded(self, value: str, signature: Signature) -> str:
        """Return the Python expression `value`, cast to the result's type.

        If the value of the expression already has this type, no cast is added."""
        done = self._native(signature) or signature.accumulator is signature.result
        return value if done else self.cast(f"({value})", signature.result)

    def _native(self, signature: Signature) -> bool:
        narrow = all(element is signature.result and element.is_float for element in signature.operands)
        return narrow and self.wide_sums


LIBRARIES = {
    library.name: library
    for library in (
        Library(
            "numpy",
            imports="import numpy as np",
            casts='{value}.astype("{element}")',
            whole="np.ascontiguousarray({value})",
            wide_sums=False,
            devices={LOCAL: "cpu"},
            install="pip install numpy",
        ),
        Library(
            "torch",
            imports="import torch\nimport torch.nn.functional as F",
            casts="{value}.to(torch.{element})",
            whole="({value}).contiguous()",
            wide_sums=True,
            devices={LOCAL: "cpu", "cuda": "cuda", "hip": "cuda", "metal": "mps"},
            install="pip install 'dispatchflow[torch]'",
        ),
        Library(
            "onnxruntime",
            computes=Kind.ONNX,
            devices={LOCAL: "cpu"},
            install="pip install 'dispatchflow[onnx]'",
        ),
    )
}

PROVIDERS = (IREE, *LIBRARIES)


def code(program: Digest, library: Library, installed: Installed) -> Digest:
    """Return a digest that identifies all code of a library call.

    The code consists of the called program, the library and `_harness.py`."""
    ingredients: dict[str, Ingredient] = {
        "call": program,
        "library": library.name,
        "version": installed.version,
        "digest": installed.digest,
        "harness": HARNESS,
    }
    return Digest(key_of("code", ingredients))


def device_of(library: Library, target: Target, device: Device, environment: Mapping[str, str]) -> Device:
    """Return a copy of `device` for calls of `library`, with the library's own name of the device.

    For example, IREE's `hip` is PyTorch's `cuda`."""
    ours = {name: value for name, value in device.identity.items() if name not in ("uri", "runtime")}
    uri = library.devices[target.driver]
    # `LD_LIBRARY_PATH` takes the place of IREE's runtime: it decides which shared libraries are loaded.
    return replace(device, uri=uri, identity={"uri": uri, **ours, **libraries(environment)})
