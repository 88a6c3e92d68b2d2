"""The contract of a tuning family, and all names that a family's file may import.

A new family is one new file in this folder; docs/adding.md shows how."""

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
"""The directory to which a tuning's flags may dump modules, in the compiler's working directory.

The dump shows the modules as they are before the compiler chooses configurations."""


PRODUCTS = (
    *("matmul", "batch_matmul", "matvec", "vecmat", "chain", "matmul_splitk", "quantized_matmul"),
    *("conv2d", "depthwise_conv2d", "quantized_conv2d", "attention"),
)
"""The operations that are sums of products of operands. Some tunings apply only to these operations."""


class Lowering(msgspec.Struct, frozen=True):
    """The text that a tuning adds to the module."""

    prelude: str = ""
    """The lines with attribute aliases before the module."""
    attribute: str = ""
    """The attribute on the operation's main op."""
    region: bool = False
    """Whether the main op and the ops after it are emitted inside one dispatch region.

    Outside of a region, the compiler replaces some ops that have a dim of size 1, and drops the attribute."""


@dataclass(frozen=True, slots=True)
class TuningFile:
    """A file that a tuning uses. Files with equal titles and contents are equal, whatever their paths."""

    path: str = field(compare=False)
    title: str
    """The file's name without the suffix; `-` replaces all but letters, digits, `_` and `-`."""
    text: str

    @property
    def digest(self) -> Digest:
        return digest_of(self.text.encode())

    @property
    def name(self) -> str:
        """The file's name in the compiler's working directory."""
        return f"{self.digest}.mlir"


@dataclass(frozen=True)
class Tuning:
    """A request to the compiler about lowering. A tuning may change speed, never results."""

    family: ClassVar[str]
    """The family's name in a spec, which is also the name of its file."""

    form: ClassVar[str] = ""
    """The form of the tunings' names, such as `split_k_SLICES`, for error messages.

    The form is empty if the only name is the family's."""

    file_parameter: ClassVar[str | None] = None
    """The parameter whose value is a file; None if the family uses no file.

    `expand` gets the file as a `TuningFile`. On the command line, the tuning is `family:PATH`."""

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        """Return the tunings that `"family"` or `{family = "…", …}` in a spec requests.

        Without parameters, the result is the family's predefined tunings. If the family needs parameters,
        the result is empty.

        Raises:
            ValueError: a parameter is unknown or out of range; the message says what is allowed.
        """
        if parameters:
            raise ValueError("takes no parameters")
        return (cls(),)

    @classmethod
    def parse(cls, word: str) -> Tuning | None:
        """Return the tuning with the name `word`; None if this family has no such tuning."""
        return next((tuning for tuning in cls.expand({}) if tuning.name == word), None)

    @property
    def name(self) -> str:
        """The tuning's name, which begins with the family's name. Different tunings have different names."""
        return self.family

    def lowering(self, operation: Operation, syntax: Release) -> Lowering:
        """Return the text that the tuning adds to the operation's module; empty if the tuning only has flags."""
        return Lowering()

    keeps_dispatches: ClassVar[bool] = True
    """Whether the compiler makes exactly `operation.dispatches` dispatches; False if it may make more.

    If False, the family's `ignored` must check the dispatches."""

    @property
    def annotates(self) -> bool:
        """Whether the tuning adds text to the module. Such a tuning cannot be used for a user's module."""
        return type(self).lowering is not Tuning.lowering

    @property
    def files(self) -> tuple[TuningFile, ...]:
        """The files named in `flags`, which the compiler reads in addition to the module."""
        return ()

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler flags in addition to the target's."""
        return ()

    def unknown_to(self, backend: str) -> str | None:
        """Return why this backend would ignore the tuning; None if it would not.

        The answer must also hold for a user's module."""
        return None

    def illegal(self, operation: Operation, backend: str) -> str | None:
        """Return why the operation cannot have this tuning; None if it can."""
        return None

    def exceeds(self, operation: Operation, target: Target) -> str | None:
        """Return why the target's hardware cannot run the tuning; None if it can."""
        return None

    def inexpressible(self, syntax: Release, target: Target) -> str | None:
        """Return why this release cannot express the tuning; None if it can."""
        return None

    def requested(self, operation: Operation) -> str | None:
        """Return the value of a row's column `requested_configuration`; None if the compiler chooses.

        If the tuning adds only flags, `operation` may be a user's module."""
        return None

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        """Return how the applied configuration differs from the request; None if it does not."""
        return None
