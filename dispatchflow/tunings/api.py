"""The contract of a tuning family, and all names that the file of a family imports.

A new family is one new file in this folder; docs/adding.md shows how.
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
"""The directory of dumps from before the compiler chooses configurations, if a tuning's flags fill it.

It lies in the directory where the compiler runs."""


PRODUCTS = (
    *("matmul", "batch_matmul", "matvec", "vecmat", "chain", "matmul_splitk", "quantized_matmul"),
    *("conv2d", "depthwise_conv2d", "quantized_conv2d", "attention"),
)
"""The operations that sum products of operands, for tunings that apply only to these."""


class Lowering(msgspec.Struct, frozen=True):
    """The text by which a tuning appears in the module."""

    prelude: str = ""
    """Alias lines before the module."""
    attribute: str = ""
    """The attribute on the operation's main op."""
    region: bool = False
    """Whether the main op and the ops after it are emitted as one dispatch.

    Passes that run before dispatches are formed replace some ops with a dim of 1 and drop their attributes; they do not
    change an op in a dispatch."""


@dataclass(frozen=True, slots=True)
class TuningFile:
    """A file that a tuning names. Title and content identify it; the path only says where it was read."""

    path: str = field(compare=False)
    title: str
    """The file's name without the extension, in characters of a case's name; no dot."""
    text: str

    @property
    def digest(self) -> Digest:
        return digest_of(self.text.encode())

    @property
    def name(self) -> str:
        """The file's name where the compiler runs. It depends on the content, so flags with it do too."""
        return f"{self.digest}.mlir"


@dataclass(frozen=True)
class Tuning:
    """A request to the compiler about lowering. It may change speed, never results."""

    family: ClassVar[str]
    """The family's word in a spec; equal to the name of its file."""

    form: ClassVar[str] = ""
    """The form of its names and the allowed sizes, for users; empty if the family is its only name."""

    file_parameter: ClassVar[str | None] = None
    """The parameter that names a file: `expand` gets a `TuningFile`; a command line has `family:PATH`."""

    @classmethod
    def expand(cls, parameters: Mapping[str, Any]) -> tuple[Tuning, ...]:
        """Return the tunings of a spec's `"family"` or `{family = "…", …}`.

        Without parameters it is the shipped set. A family that takes no parameters is one tuning.

        Raises:
            ValueError: a parameter is unknown or out of range; the message says what is allowed.
        """
        if parameters:
            raise ValueError("takes no parameters")
        return (cls(),)

    @classmethod
    def parse(cls, word: str) -> Tuning | None:
        """Return the tuning with this name; None if the family has no such name."""
        return next((tuning for tuning in cls.expand({}) if tuning.name == word), None)

    @property
    def name(self) -> str:
        """The name, which begins with the family's; different fields have different names."""
        return self.family

    def lowering(self, operation: Operation, syntax: Release) -> Lowering:
        return Lowering()

    keeps_dispatches: ClassVar[bool] = True
    """Whether the module has as many dispatches as the operation states; False if the family adds some.

    The `ignored` of such a family must check them."""

    @property
    def annotates(self) -> bool:
        """Whether the tuning is written into the module; if it consists only of flags, it suits any module."""
        return type(self).lowering is not Tuning.lowering

    @property
    def files(self) -> tuple[TuningFile, ...]:
        """The files that the compiler reads in addition to the module; the flags name them."""
        return ()

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler flags in addition to the target's."""
        return ()

    def unknown_to(self, backend: str) -> str | None:
        """Return why the tuning has no effect on this backend, as the reason of a skip; None if it may have.

        The reason holds for users' modules too."""
        return None

    def illegal(self, operation: Operation, backend: str) -> str | None:
        """Return why the operation cannot have this tuning, as the reason of a skip; None if it can."""
        return None

    def exceeds(self, operation: Operation, target: Target) -> str | None:
        """Return why the target's hardware cannot run it, as the reason of a skip; None if it can."""
        return None

    def inexpressible(self, syntax: Release, target: Target) -> str | None:
        """Return why it cannot be requested from this release, as the reason of a skip; None if it can."""
        return None

    def requested(self, operation: Operation) -> str | None:
        """Return the `requested_configuration` of a row; None if the compiler chooses.

        A family that consists only of flags must not read `operation`, here or in `ignored`, because `operation` may
        be a user's module."""
        return None

    def ignored(self, operation: Operation, applied: Applied) -> str | None:
        """Return how the applied configuration differs, as the reason of a failure; None if it does not."""
        return None
