"""Repeat a module's call, to check that every byte of the results is written and reproducible.

On a CPU, the second call runs on `local-sync` with an allocator that fills new memory with 0xCD. A result that
depends on unwritten memory then differs (docs/verification.md). On other devices, the second call shows only whether
a result is the same each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from filecmp import cmp
from pathlib import Path
from typing import TYPE_CHECKING

from dispatchflow import units
from dispatchflow.engine.actions import Data
from dispatchflow.engine.call import ModuleCall, Result
from dispatchflow.store import disk
from dispatchflow.verification import inputs
from dispatchflow.verification.verdict import Verdict, Worst

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array

Names = Sequence[str]
"""The names of the files with a function's results."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The results that differ between two calls of a module with the same operands."""

    verdicts: Mapping[int, Verdict]
    """A mapping from result index to verdict, for the results that differ.

    The verdict has the number of elements that differ, and the first of them."""
    steady: bool
    """True if unwritten memory certainly causes the difference. If false, the cause may be chance.

    On a CPU, the second call fills new memory with 0xCD; the first call and a third call do not. The cause is certain
    if the first and third call give the same values for each result in `verdicts`. On other devices, the value is
    false."""
    second: Names
    """The names of the files with the second call's results."""

    def text(self, of: str, unit: str = "element") -> str:
        """Describe the first result that differs, in one line.

        `of` is the name of the result in the text, such as `result 0`. `unit` is the noun for its elements, such as
        `byte`."""
        differing = next(iter(self.verdicts.values()))
        worst, what = differing.worst, f"{units.count(differing.wrong, unit)} of {of}"
        assert worst is not None
        first = f"the first at [{', '.join(map(str, worst.index))}]: {worst.got}"
        if not worst.index:  # a bare number or a tensor of rank 0
            what, first = of, worst.got
        if not self.steady:
            return f"not deterministic: equal calls differ in {what}; {first}, then {worst.expected}"
        depend = "depends" if differing.wrong == 1 else "depend"
        return f"{what} {depend} on memory that was never written; {first}, {worst.expected} where it held other bytes"


def difference(
    place: ModuleCall, data: Data, recipe: str, names: Names, function: str, arrays: Sequence[Array]
) -> Result | Difference | None:
    """Repeat the call of a module, and find the results that differ from those of the first call.

    `names` are the files with the first call's results. `arrays` has one array for each result, of the result's type
    and shape. Returns None if nothing differs, or if a library computes the case. Returns a `Result` if a repeated
    call fails or gives results of another size."""
    if (again := place.again()) is None:
        return None
    second = [f"second_{name}" for name in names]
    if (failure := again.call(data, recipe, second, function)) is not None:
        return _of_call("second", failure)
    for name, other in zip(names, second, strict=True):
        if (size := _size(place.scratch / other)) != (first := _size(place.scratch / name)):
            disk.check(place.store.root)
            short = f"{size} B were written; the first call wrote {first}"
            return _of_call("second", (False, short, place.log(), {"verification": "not compared"}))
    verdicts = {
        index: _different(place.scratch / name, place.scratch / other, like)
        for index, (name, other, like) in enumerate(zip(names, second, arrays, strict=True))
        if not cmp(place.scratch / name, place.scratch / other, shallow=False)
    }
    if not verdicts:
        return None
    third = [f"third_{name}" for name in names]
    if (failure := place.call(data, recipe, third, function)) is not None:
        return _of_call("third", failure)
    same = [cmp(place.scratch / names[i], place.scratch / third[i], shallow=False) for i in verdicts]
    poisoned = again.device_flags != place.device_flags
    return Difference(verdicts, poisoned and all(same), second)


def _of_call(which: str, failure: Result) -> Result:
    ok, reason, outputs, facts = failure
    return ok, f"the {which} of the compared calls: {reason}", outputs, facts


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _different(first: Path, second: Path, like: Array) -> Verdict:
    """Return the verdict on two unequal files, with the number of elements whose bits differ.

    `like` is an array of the result's type and shape. `verdict.compare_bits` would not do, because it treats all NaNs
    as equal."""
    import numpy as np

    one, other = (inputs.read(path, like.dtype) for path in (first, second))
    bits = [array.view(np.uint8).reshape(len(array), -1) for array in (one, other)]
    places = np.flatnonzero((bits[0] != bits[1]).any(axis=1))
    first_place = int(places[0])
    index = np.unravel_index(first_place, like.shape) if like.size == len(one) else (first_place,)
    worst = Worst(tuple(int(i) for i in index), str(one[first_place]), str(other[first_place]))
    return Verdict("different", worst=worst, wrong=len(places))
