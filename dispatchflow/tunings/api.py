"""The contract of a tuning family, and all that a file with one imports.

A new family is one new file beside this one; docs/adding.md shows how.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from dispatchflow.iree.configurations import Applied
from dispatchflow.iree.release import Release
from dispatchflow.iree.targets import Target
from dispatchflow.keys import Digest, digest_of
from dispatchflow.mlir.attributes import canonical, configurations
from dispatchflow.mlir.types import Signature
from dispatchflow.operations import Operation

__all__ = [
    "GIVEN",
    "PRODUCTS",
    "Applied",
    "Lowering",
    "Operation",
    "Release",
    "Signature",
    "Target",
    "Tuning",
    "TuningFile",
    "canonical",
    "configurations",
]

GIVEN = "given"
"""Where the compiler runs: the directory of dumps from before it chooses, for tunings whose flags fill it."""


PRODUCTS = (
    *("matmul", "batch_matmul", "matvec", "vecmat", "chain", "matmul_splitk", "quantized_matmul"),
    *("conv2d", "depthwise_conv2d", "quantized_conv2d", "attention"),
)
"""The operations that multiply operands and add up: what a tuning of such sums may be asked of."""


class Lowering(msgspec.Struct, frozen=True):
    """How a tuning appears in the module: alias lines before it, and the attribute on the operation's main op.
    `region`: that op and what follows it are one dispatch from the start. Passes before the dispatches are formed turn
    some ops with a dim of 1 into others, and drop their attributes; what is in a dispatch they leave alone."""

    prelude: str = ""
    attribute: str = ""
    region: bool = False


@dataclass(frozen=True, slots=True)
class TuningFile:
    """A file that a tuning names: identity is its title and content, the path only says where it was read."""

    path: str = field(compare=False)
    title: str
    """Its name without the ending, in letters of a case's name; no dot."""
    text: str

    @property
    def digest(self) -> Digest:
        return digest_of(self.text.encode())

    @property
    def name(self) -> str:
        """In the directory where the compiler runs: flags that name it name the content."""
        return f"{self.digest}.mlir"


@dataclass(frozen=True)
class Tuning:
    """A request to the compiler about lowering. It may change speed, never results."""

    family: ClassVar[str]
    """The spec's word; equal to the file's name."""

    form: ClassVar[str] = ""
    """What its names look like, and which sizes, for who writes one; empty where the family is its only name."""

    file_parameter: ClassVar[str | None] = None
    """The parameter that names a file: `expand` gets a `TuningFile`. On the command line it is `family:PATH`."""

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        """The tunings that a spec's `"family"` (no parameters: the shipped set) or `{family = "…", …}` names. A family
        without parameters is one tuning.

        Raises:
            ValueError: a parameter that is unknown or out of range; the message says what is allowed.
        """
        if parameters:
            raise ValueError("takes no parameters")
        return (cls(),)

    @classmethod
    def parse(cls, word: str) -> Tuning | None:
        """The tuning of this name, None when the word is not one of this family's."""
        return next((tuning for tuning in cls.expand({}) if tuning.name == word), None)

    @property
    def name(self) -> str:
        """Injective over the family's fields; begins with the family's name."""
        return self.family

    def lowering(self, operation: Operation, syntax: Release) -> Lowering:
        return Lowering()

    keeps_dispatches: ClassVar[bool] = True
    """Whether what an operation says of its dispatches holds; not where a family adds some: then `ignored` tells."""

    @property
    def annotates(self) -> bool:
        """Whether it is written into the module; else it is flags alone, and any module will do."""
        return type(self).lowering is not Tuning.lowering

    @property
    def files(self) -> tuple[TuningFile, ...]:
        """What the compiler reads beside the module, by the flags' names."""
        return ()

    @property
    def flags(self) -> tuple[str, ...]:
        """Compiler flags beside the target's."""
        return ()

    def unknown_to(self, backend: str) -> str | None:
        """Why it does nothing on this backend, to a user's module neither; None when it may. The reason of a skip."""
        return None

    def illegal(self, operation: Operation, backend: str) -> str | None:
        """Why this tuning cannot be asked for here, None when it can. The reason of a skip."""
        return None

    def exceeds(self, operation: Operation, target: Target) -> str | None:
        """Why this target's hardware cannot have it, None when it can. The reason of a skip."""
        return None

    def inexpressible(self, syntax: Release, target: Target) -> str | None:
        """Why this release has no way to ask for it on this target, None when it has. The reason of a skip."""
        return None

    def requested(self, operation: Operation) -> str | None:
        """The row's `requested_configuration`; None where the compiler chooses. A family that is flags alone is
        asked of a user's module too, here and in `ignored`: it looks at no operation."""
        return None

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        """Why what was applied is not what was asked, None when it is. The reason of a failure."""
        return None
