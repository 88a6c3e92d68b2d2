"""Define the class `Dispatch`, and digests of what cases compute.

In IREE, a dispatch is a kernel that a compiled program launches. Here, a `Dispatch` is a request to the compiler."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from dispatchflow.cases.module import Module
from dispatchflow.iree.configurations import AND, Applied, unapplied
from dispatchflow.iree.release import NEWEST, Release
from dispatchflow.keys import Digest, key_of
from dispatchflow.operations import Operation
from dispatchflow.tunings import Tuning
from dispatchflow.workload import ENTRY, Workload

if TYPE_CHECKING:
    from dispatchflow.store.entries import Record, RecordHead

_COPY = "_slow_memcpy"
"""The suffix in the name of a compiled dispatch that only copies a tensor.

IREE 3.9 to 3.13 uses this suffix in all backends."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """An operation or a user's module, and a tuning of its lowering."""

    operation: Workload
    tuning: Tuning
    asks: tuple[str, ...] = ()
    """The lowering configurations in a user's module; empty until the stage `emit` has read the module."""

    def module(self, syntax: Release = NEWEST) -> str:
        """Generate the MLIR of this dispatch in the syntax of an IREE release.

        For the same release, equal dispatches give equal bytes. The method must not be called for a user's module,
        whose MLIR is in a file."""
        assert isinstance(self.operation, Operation)  # a user's module is a file, which emit prints
        lowering = self.tuning.lowering(self.operation, syntax)
        return lowering.prelude + _module(self.operation, syntax, lowering.attribute, lowering.region)

    def printed(self, emitted: Record | RecordHead) -> Dispatch:
        """Return a copy that knows which lowering configurations the user's module requests (field `asks`).

        `emitted` is the stored outcome of the stage `emit`, which records these configurations. A dispatch of an
        operation is returned unchanged."""
        return replace(self, asks=tuple(emitted.facts.get("asks", ()))) if type(self.operation) is Module else self

    @property
    def requested(self) -> str | None:
        """The lowering configurations that the tuning or the user's module requests, as one text.

        None if neither requests a configuration; the compiler then chooses."""
        of_tuning = self.tuning.requested(cast(Operation, self.operation))
        return AND.join(filter(None, (of_tuning, *dict.fromkeys(self.asks)))) or None

    def _counted(self, packed: bool) -> Operation | None:
        """Return the operation if the number of its compiled dispatches must be checked, otherwise None.

        The number is not checked if the compiler packs the operands of products by default (`packed`)."""
        operation = self.operation
        known = isinstance(operation, Operation) and operation.dispatches is not None
        return cast(Operation, operation) if known and self.tuning.keeps_dispatches and not packed else None

    def demanded(self, packed: bool = False) -> str | None:
        """Return the requirements on the compiled module as text; None if there are none.

        For example, `default; 2 dispatches` requires two dispatches with any lowering configuration."""
        if (operation := self._counted(packed)) is None:
            return self.requested
        # The text is part of the key of the compile.
        beside = " beside a copy" if operation.may_copy else ""
        return f"{self.requested or 'default'}; {operation.dispatches} dispatches{beside}"

    def missed(self, applied: Applied, packed: bool = False) -> str | None:
        """Return how the compiled module differs from what was requested; None if it does not differ.

        `applied` has the configurations that the compiler used. `packed` says whether the compiler packs the operands
        of products by default. If `packed` is true, the number of dispatches is not checked."""
        why = self.tuning.ignored(cast(Operation, self.operation), applied)
        if why is not None:
            return f"configuration ignored: {why}"
        if (own := unapplied(self.asks, applied)) is not None:
            return f"configuration ignored: the module asks for {own}; applied {applied.text or 'nothing'}"
        if (operation := self._counted(packed)) is None:
            return None
        names, expected = [executable.name for executable in applied.executables], operation.dispatches
        copies = [name for name in names if name.endswith(_COPY)][: operation.may_copy]
        if len(names) - len(copies) == expected:
            return None
        units = "one dispatch" if expected == 1 else f"{expected} dispatches"
        units += " beside the padding's copy" if copies else ""
        return f"expected {units}, the compiler made {len(names)}: {', '.join(names) or 'none'}"


@lru_cache(maxsize=64)  # most tunings of an operation have the same module
def _module(operation: Operation, syntax: Release, attribute: str, region: bool = False) -> str:
    """Return the MLIR module of an operation.

    `attribute` is the text that the tuning adds to the main op. If `region` is true, the main op and the later ops are
    in a dispatch region."""
    body = operation.body_for(syntax, attribute)
    body = _in_region(body, attribute.strip(" {}"), operation.result().mlir) if region else body
    arguments = ", ".join(
        f"%arg{i}: {operand.type.passed.mlir} loc(unknown)" for i, operand in enumerate(operation.operands())
    )
    return f"""\
module @dispatch {{
  func.func @{ENTRY}({arguments}) -> {operation.result().mlir} {{
{body}  }} loc(unknown)
}} loc(unknown)
"""


def digest_of_module(source: Digest, function: str, objects: tuple[tuple[str, Digest], ...] = ()) -> Digest:
    """Return the `program_digest` of the function `function` of a user's module.

    `source` is the digest of the module's own file. `objects` has (path, digest) of each other file that the
    module names."""
    return Digest(key_of("program", {"source": source, "objects": objects, "function": function}))


@lru_cache(maxsize=64)
def program_digest(program: Workload) -> Digest:
    """Return a digest of what `program` computes, equal for all tunings, targets and toolchains.

    The digest covers the name, sizes, types, layouts, options and MLIR of an operation, and the function and files
    of a user's module."""
    if isinstance(program, Module):
        objects = tuple((path, file.digest) for path, file in program.objects)
        return digest_of_module(program.source.digest, program.function, objects)
    assert isinstance(program, Operation)
    # The module of a dynamic operation does not contain the sizes; the name does.
    return Digest(key_of("program", {"operation": program.shape_name, "module": _module(program, NEWEST, "")}))


def _in_region(body: str, attribute: str, result: str) -> str:
    """Put the op that has `attribute`, and later ops, into a dispatch region; the return stays outside.

    `body` is the text of a function's body. `result` is the MLIR type of the function's result."""
    lines = body.splitlines()
    first = next(i for i, line in enumerate(lines) if attribute in line)
    *inner, last = lines[first:]
    value = last.split()[1]
    return "\n".join(
        [
            *lines[:first],
            f"    %dispatched = flow.dispatch.region -> ({result}) {{",
            *(f"  {line}" for line in inner),
            f"      flow.return {value} : {result} loc(unknown)",
            "    } loc(unknown)",
            f"    return %dispatched : {result} loc(unknown)\n",
        ]
    )
