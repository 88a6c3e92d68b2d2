"""Compare a site's captured results with what a reference computes from the captured operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import msgspec

from dispatchflow.cases.module import output_names, shape_of
from dispatchflow.engine import actions
from dispatchflow.engine.actions import VERIFICATION, Action, Data
from dispatchflow.engine.call import ModuleCall, Result
from dispatchflow.engine.stages import StageExecutor
from dispatchflow.engine.verify_module import compared
from dispatchflow.iree.targets import Device
from dispatchflow.keys import Digest
from dispatchflow.models.extraction import FUNCTION
from dispatchflow.models.located import ResultCheck, SiteCheck
from dispatchflow.store.entries import Record

_VERSION = 1
"""The version of the facts that are recorded about a comparison. Raise it when these facts change."""


@dataclass(frozen=True, slots=True)
class Operands:
    """The captured operands and results of a site."""

    arguments: tuple[tuple[str, Digest], ...]
    """A pair for each operand: a description, and the digest of the operand's bytes.

    A tensor is described by its sizes and its element type, such as `4x8xf32`. A scalar is described by its value, such
    as `=5`."""
    results: tuple[tuple[str, Digest], ...]
    """A pair for each captured result: its type, and the digest of its bytes."""
    undefined: Mapping[int, Digest]
    """A mapping from result index to the digest of a mask, for the results with undefined elements.

    The mask has a byte for each element: 1 if the element depends on memory that the program never wrote, otherwise 0.
    If elements are narrower than a byte, the mask has a byte for each byte of the result instead."""

    @property
    def data(self) -> Data:
        digests = {"given": tuple(digest for _, digest in self.arguments)}
        digests |= {f"captured_{i}": (digest,) for i, (_, digest) in enumerate(self.results)}
        digests |= {f"undefined_{i}": (digest,) for i, digest in self.undefined.items()}
        return Data(digests, tuple(argument for argument, _ in self.arguments))


def of_site(executor: StageExecutor, site: int, operands: Operands, compiled: Record, device: Device) -> SiteCheck:
    """Compare the captured results of one site with those of a reference.

    The reference is the module of the site's dispatch, compiled for another target. It is called on `device` with the
    captured operands. `compiled` is the record of its compile.

    Raises:
        DamagedObject: an object was damaged or missing.
    """
    if not compiled.ok:
        return SiteCheck(site, why=f"it does not compile for the reference: {compiled.reason}", uncompiled=True)
    code, data = compiled.outputs["vmfb"], operands.data
    for digest in (code, *data.objects):
        executor.store.checked(digest)
    call = actions.Call(compiled.facts["code_digest"], FUNCTION, device)

    def make(scratch: Path) -> Result:
        return _compared(executor.place(scratch, device, {"module.vmfb": code}), operands, data)

    record = executor.make(action(call, operands), make)
    if not record.ok:
        return SiteCheck(site, why=f"the reference gives no result: {record.reason}")
    return SiteCheck(site, msgspec.convert(record.facts["results"], tuple[ResultCheck, ...]))


def action(call: actions.Call, operands: Operands) -> Action:
    types = tuple(type_ for type_, _ in operands.results)
    return actions.called("locate", call, operands.data, types=types, protocol=(VERIFICATION, _VERSION))


def _compared(place: ModuleCall, operands: Operands, data: Data) -> Result:
    names = output_names([type_ for type_, _ in operands.results])
    if (failure := place.call(data, "given", names, FUNCTION)) is not None:
        ok, reason, outputs, facts = failure
        facts.pop("verification", None)
        return ok, reason, outputs, facts
    checks: list[ResultCheck] = []
    for index, (name, (type_, digest)) in enumerate(zip(names, operands.results, strict=True)):
        got, expected = place.store.path(digest).read_bytes(), (place.scratch / name).read_bytes()
        if len(got) != len(expected):
            reason = f"result {index} ({type_}) has {len(expected)} B; {len(got)} were captured"
            return False, reason, {}, {}
        known = shape_of(type_)
        elements = prod(size or 0 for size in known[0]) if known else 1
        undefined = 0
        if index in operands.undefined:
            mask = place.store.path(operands.undefined[index]).read_bytes()
            undefined = mask.count(1)
            if undefined == len(mask):
                return False, f"all elements of result {index} depend on memory that the program never wrote", {}, {}
            got, expected = (without(content, mask) for content in (got, expected))
        if (found := compared(got, expected, type_, None)) is None:
            return False, f"result {index} of type {type_} cannot be compared", {}, {}
        at = found.worst
        more = (at.index, at.got, at.expected) if at else ()
        checks.append(ResultCheck(index, found.word, found.score, found.wrong, elements, undefined, *more))
    return True, None, {}, {"results": msgspec.to_builtins(checks)}


def without(content: bytes, mask: Sequence[int] | bytes) -> bytes:
    """Return a copy of a tensor's bytes in which each element whose mask is 1 becomes 0.

    With two elements of two bytes, `without(bytes([5, 6, 7, 8]), [0, 1])` returns `bytes([5, 6, 0, 0])`."""
    import numpy as np

    array = np.frombuffer(content, np.uint8).reshape(len(mask), -1).copy()
    array[np.frombuffer(bytes(mask), np.uint8) == 1] = 0
    return array.tobytes()
