"""The providers that compute a case: IREE, or a library such as numpy.

For a library, a small Python program or a model file takes the place of the MLIR module. The program is made of the
expression that `Operation.library_call` returns.
"""

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
"""The version of `_harness.py`. Raise it when the way in which a call is run or timed changes."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library that computes operations or runs model files in place of IREE.

    The fields from `imports` on are for operations only."""

    name: str
    """The name in a spec. The package and the module to import have the same name."""
    devices: Mapping[str, str] = field(hash=False)
    """Driver of IREE's runtime → the library's name for the same device."""
    install: str
    """The command that installs the library."""
    computes: Kind = Kind.OPERATIONS
    imports: str = ""
    """The import statements with which a call's program begins."""
    casts: str = ""
    """A template of an expression that converts `{value}` to the type with the numpy name `{element}`."""
    whole: str = ""
    """A template of an expression that copies `{value}`, perhaps a transposed view, to row-major memory."""
    wide_sums: bool = False
    """Whether the library keeps sums of narrow floats in a wider type and rounds them once."""

    def cast(self, value: str, element: ElementType) -> str:
        return self.casts.format(value=value, element=element.numpy_name)

    def operands(self, signature: Signature, count: int) -> list[str]:
        """Return the expressions of the operands, `x0`, `x1`, …, cast to the accumulator's type.

        There are no casts if `wide_sums` is true and the operands and the result all have the same float type."""
        names, elements = [f"x{i}" for i in range(count)], [*signature.operands, signature.accumulator]
        if self._native(signature):
            return names
        wide = signature.accumulator
        return [
            name if elements[min(i, len(elements) - 1)] is wide else self.cast(name, wide)
            for i, name in enumerate(names)
        ]

    def rounded(self, value: str, signature: Signature) -> str:
        """Return the expression `value`, with a cast unless its value already has the result's type."""
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
    """Return a digest of a call's program and of the library."""
    ingredients: dict[str, Ingredient] = {
        "call": program,
        "library": library.name,
        "version": installed.version,
        "digest": installed.digest,
        "harness": HARNESS,
    }
    return Digest(key_of("code", ingredients))


def device_of(library: Library, target: Target, device: Device, environment: Mapping[str, str]) -> Device:
    """Convert the description of a device for IREE to a description for `library`.

    The URI becomes the library's name for the device, such as `cuda`. IREE's runtime is removed from the identity.
    `LD_LIBRARY_PATH` is added, because it decides which shared libraries are loaded."""
    ours = {name: value for name, value in device.identity.items() if name not in ("uri", "runtime")}
    uri = library.devices[target.driver]
    return replace(device, uri=uri, identity={"uri": uri, **ours, **libraries(environment)})
