"""The base class of all tuning families, and all names that the file of a family may import.

To add a family, add one file to this folder; docs/adding.md shows how."""

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
"""The name of a directory in the compiler's working directory, for dumps of modules.

The compiler writes a dump if the flags of a tuning ask for it. The dump shows the modules before the compiler chooses
lowering configurations."""


PRODUCTS = (
    *("matmul", "batch_matmul", "matvec", "vecmat", "chain", "matmul_splitk", "quantized_matmul"),
    *("conv2d", "depthwise_conv2d", "quantized_conv2d", "attention"),
)
"""The operations with sums of products that IREE packs (data tiling) or splits."""


class Lowering(msgspec.Struct, frozen=True):
    """The text that a tuning adds to a case's MLIR module."""

    prelude: str = ""
    """The lines that define attribute aliases. They are written before the module."""
    attribute: str = ""
    """The attribute that is written on the operation's main op, the one that gets the tile sizes."""
    region: bool = False
    """True if the main op and the ops after it are emitted inside one dispatch region.

    Outside of a region, the compiler replaces some main ops by other ops, which do not get the text of `attribute`.
    This happens to some ops with a dimension of size 1, and in IREE 3.9 and 3.10 to all named convolutions."""


@dataclass(frozen=True, slots=True)
class TuningFile:
    """A file that a tuning uses.

    Two files are equal if their titles and texts are equal, even if their paths differ."""

    path: str = field(compare=False)
    title: str
    """The file's name without the suffix.

    Every character that is not a letter, a digit, `_` or `-` is replaced by `-`."""
    text: str

    @property
    def digest(self) -> Digest:
        return digest_of(self.text.encode())

    @property
    def name(self) -> str:
        """The name that the file gets in the compiler's working directory."""
        return f"{self.digest}.mlir"


@dataclass(frozen=True)
class Tuning:
    """A request to the compiler to lower an operation in a certain way.

    A tuning may change speed, never results."""

    family: ClassVar[str]
    """The family's name in a spec. The Python file of the family has the same name."""

    form: ClassVar[str] = ""
    """The form of the tunings' names, such as `split_k_SLICES`, for error messages.

    The form is empty if the family has only one tuning, which has the family's name."""

    file_parameter: ClassVar[str | None] = None
    """The name of the parameter whose value is a file. None if the family uses no file.

    `expand` gets the file as a `TuningFile`. On the command line, such a tuning is written as `family:PATH`."""

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        """Return the tunings that a spec requests with `"FAMILY"` or with `{family = "FAMILY", …}`.

        `parameters` has all entries of `{…}` except `family`. If `parameters` is empty, the result has all predefined
        tunings of the family. Some families have no predefined tunings.

        Raises:
            ValueError: a parameter is unknown, missing or out of range; the message says what is allowed."""
        if parameters:
            raise ValueError("takes no parameters")
        return (cls(),)

    @classmethod
    def parse(cls, word: str) -> Tuning | None:
        """Return the tuning whose name is `word`, or None if this family has no such tuning."""
        return next((tuning for tuning in cls.expand({}) if tuning.name == word), None)

    @property
    def name(self) -> str:
        """The tuning's name, which begins with the family's name. Different tunings have different names."""
        return self.family

    def lowering(self, operation: Operation, syntax: Release) -> Lowering:
        """Return the pieces of text that the tuning adds to the operation's MLIR module.

        They are empty if the tuning consists only of compiler flags. `syntax` is the IREE release whose compiler
        reads the module."""
        return Lowering()

    keeps_dispatches: ClassVar[bool] = True
    """True if the compiler must make exactly `operation.dispatches` dispatches.

    One more dispatch is allowed if it pads an operand (`operation.may_copy`). If False, any number is accepted. The
    family's method `ignored` must then examine the dispatches to find out whether the compiler followed the tuning."""

    @property
    def annotates(self) -> bool:
        """True if the tuning adds text to the module. Such a tuning cannot be used for a user's own MLIR file."""
        return type(self).lowering is not Tuning.lowering

    @property
    def files(self) -> tuple[TuningFile, ...]:
        """The files that the compiler reads in addition to the module, because `flags` name them."""
        return ()

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler flags that the tuning adds to the target's flags."""
        return ()

    def unknown_to(self, backend: str) -> str | None:
        """Return why the compiler's backend `backend` would ignore the tuning in every module.

        Returns None if the backend knows the tuning."""
        return None

    def illegal(self, operation: Operation, backend: str) -> str | None:
        """Return why the operation cannot have this tuning on this backend, or None if it can."""
        return None

    def exceeds(self, operation: Operation, target: Target) -> str | None:
        """Return why the target's hardware cannot run code with this tuning, or None if it can."""
        return None

    def inexpressible(self, syntax: Release, target: Target) -> str | None:
        """Return why the tuning cannot be expressed in the syntax of an IREE release, or None if it can."""
        return None

    # If a tuning adds only flags, `operation` may be a user's `Module`: use only members of `Workload`.
    def requested(self, operation: Operation) -> str | None:
        """Return the configuration that the tuning requests, such as tile sizes, as text.

        Returns None if the compiler chooses the configuration."""
        return None

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        """Return how the configuration that the compiler applied differs from the requested one.

        Returns None if the requested configuration was applied."""
        return None
