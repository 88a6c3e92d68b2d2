"""The providers that compute a case: IREE, or a library such as numpy with its own code.

A library computes operations or model files. For an operation, `Operation.library_call` returns an expression that
calls the library, and `cases/provider.py` turns the expression into a small program. This program, or the model's
files, take the place of the MLIR module: they are written to disk, shown, and hashed into cache keys."""

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
"""The version of `_harness.py`: raise it when the way in which a call is run or timed changes."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library that computes operations or runs model files in place of IREE.

    The fields from `imports` on are for operations only."""

    name: str
    """The library's name in a spec, which is also the name of its package and of the module to import."""
    devices: Mapping[str, str] = field(hash=False)
    """The runtime's driver → the library's name for that device."""
    install: str
    """The command that installs the library."""
    computes: Kind = Kind.OPERATIONS
    imports: str = ""
    """The import statements with which a call's program begins."""
    casts: str = ""
    """A template of the expression that converts `{value}` to `{element}`, an `ElementType.numpy_name`."""
    whole: str = ""
    """A template of the expression for `{value}`, which may be a transposed view, in row-major memory."""
    wide_sums: bool = False
    """Whether the library keeps sums of narrow floats in a wider type and rounds them once."""

    def cast(self, value: str, element: ElementType) -> str:
        return self.casts.format(value=value, element=element.numpy_name)

    def operands(self, signature: Signature, count: int) -> list[str]:
        """Return the expressions of the operands in a program: `x0`, `x1`, …, cast to the accumulator's type.

        They are not cast if the library itself keeps sums in a wider type (`wide_sums`), and all operands and the
        result have the same float type."""
        names, elements = [f"x{i}" for i in range(count)], [*signature.operands, signature.accumulator]
        if self._native(signature):
            return names
        wide = signature.accumulator
        return [
            name if elements[min(i, len(elements) - 1)] is wide else self.cast(name, wide)
            for i, name in enumerate(names)
        ]

    def rounded(self, value: str, signature: Signature) -> str:
        """Return `value`, an expression computed from `operands`, cast to the result's type.

        There is no cast if `value` already has that type."""
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
    """Return the code digest of a call: a digest of its program and of the library."""
    ingredients: dict[str, Ingredient] = {
        "call": program,
        "library": library.name,
        "version": installed.version,
        "digest": installed.digest,
        "harness": HARNESS,
    }
    return Digest(key_of("code", ingredients))


def device_of(library: Library, target: Target, device: Device, environment: Mapping[str, str]) -> Device:
    """Convert `device`, which describes a device for IREE, to a description for the library.

    The URI becomes the library's name for the device, such as `cuda`. From the identity, IREE's runtime is removed.
    `LD_LIBRARY_PATH` is added, because it decides which shared libraries the library loads."""
    ours = {name: value for name, value in device.identity.items() if name not in ("uri", "runtime")}
    uri = library.devices[target.driver]
    return replace(device, uri=uri, identity={"uri": uri, **ours, **libraries(environment)})
