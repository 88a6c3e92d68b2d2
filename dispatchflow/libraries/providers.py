"""Who computes an operation: IREE through the chain, or a library that brings its own code. One table.

A library's call is an expression that the operation writes (`Operation.library_call`), made into a small program by
`cases/provider.py`: it is emitted, shown and keyed as a module is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dispatchflow.iree.command_lines import libraries
from dispatchflow.iree.targets import LOCAL, Device, Target
from dispatchflow.keys import Digest, Ingredient, key_of
from dispatchflow.mlir.types import ElementType, Signature

if TYPE_CHECKING:
    from dispatchflow.libraries.installed import Installed

IREE = "iree"

HARNESS = 1
"""Version of `_harness.py`. Raise it when how a call is run or timed changes."""


@dataclass(frozen=True, slots=True)
class Library:
    """`name` is the spec's word, the package's name and what Python imports."""

    name: str
    imports: str
    """The first lines of a call's program."""
    casts: str
    """`{value}` in another element type, `{element}`, which has the name of `ElementType.numpy_name`."""
    whole: str
    """`{value}` as it must lie in memory: row-major, and no view of an operand."""
    wide_sums: bool
    """Whether sums of narrow floats are kept wide and rounded once."""
    devices: Mapping[str, str] = field(hash=False)
    """Runtime's driver → the library's own word for that device."""
    install: str
    """What a user who lacks it types."""

    def cast(self, value: str, element: ElementType) -> str:
        return self.casts.format(value=value, element=element.numpy_name)

    def operands(self, signature: Signature, count: int) -> list[str]:
        """`x0`, `x1`, …, in the accumulator's type unless the library itself sums them so."""
        names, elements = [f"x{i}" for i in range(count)], [*signature.operands, signature.accumulator]
        if self._native(signature):
            return names
        wide = signature.accumulator
        return [
            name if elements[min(i, len(elements) - 1)] is wide else self.cast(name, wide)
            for i, name in enumerate(names)
        ]

    def rounded(self, value: str, signature: Signature) -> str:
        """What was computed from `operands`, in the result's type."""
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
    )
}

PROVIDERS = (IREE, *LIBRARIES)


def code(text: Digest, library: Library, installed: Installed) -> Digest:
    """What stands for a code digest: the call, and the library that is called."""
    ingredients: dict[str, Ingredient] = {
        "call": text,
        "library": library.name,
        "version": installed.version,
        "digest": installed.digest,
        "harness": HARNESS,
    }
    return Digest(key_of("code", ingredients))


def device_of(library: Library, target: Target, device: Device, environment: Mapping[str, str]) -> Device:
    """The same device as the library sees it: IREE's runtime is no part of what it is, and where the library finds its
    shared libraries is."""
    ours = {name: value for name, value in device.identity.items() if name not in ("uri", "runtime")}
    uri = library.devices[target.driver]
    return replace(device, uri=uri, identity={"uri": uri, **ours, **libraries(environment)})
