"""Calls a compiled module and compares what it gives: the ladder of docs/verification.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatchflow import inputs, module, verdict
from dispatchflow.actions import Data
from dispatchflow.keys import Digest
from dispatchflow.module import Module
from dispatchflow.operations import Operation
from dispatchflow.reports import units
from dispatchflow.running import Place, Result
from dispatchflow.verdict import Verdict

if TYPE_CHECKING:
    from dispatchflow.operations._base import Array


def verify_operation(place: Place, operation: Operation, data: Data) -> Result:
    """On exact inputs bit by bit, on random ones within the bound."""
    outputs: dict[str, Digest] = {}
    verdicts: dict[str, Verdict] = {}
    for recipe in operation.recipes:
        if recipe == "exact" and inputs.mistrust(operation):
            verdicts[recipe] = Verdict("mistrusted")
            continue
        if (failure := place.call(data, recipe, ("output.bin",), operation.function)) is not None:
            return failure
        output = place.scratch / "output.bin"
        size = output.stat().st_size if output.exists() else 0
        if size != operation.result().nbytes:
            reason = f"{size} B were written; the result has {operation.result().nbytes}"
            return False, reason, place.log(), {"verification": "not compared"}
        got = _array(output, inputs.dtype_of(operation.result().element), operation)
        verdicts[recipe] = _compared(place, recipe, got, operation, data)
        if not verdicts[recipe].passed:
            outputs[f"got_{recipe}"] = place.store.put_file(output)
    return _judged(verdicts, outputs)


def _compared(place: Place, recipe: str, got: Array, operation: Operation, data: Data) -> Verdict:
    def wanted(name: str, dtype: Any) -> Array:
        return _array(place.store.path(data.digests[f"expected_{name}"][0]), dtype, operation)

    if recipe == "exact" or operation.bitwise:
        return verdict.compare_bits(got, wanted(recipe, got.dtype))
    return verdict.compare_bounded(got, wanted("reference", "float64"), wanted("tolerance", "float64"))


def _array(path: Path, dtype: Any, operation: Operation) -> Array:
    import numpy as np

    array: Array = np.fromfile(path, dtype).reshape(operation.result().shape)
    return array


def verify_module(place: Place, program: Module, data: Data, results: Sequence[str]) -> Result:
    """Each result against the expected one; `not compared`, and no failure, where there is none."""
    names = module.output_names(results)
    if (failure := place.call(data, "given", names, program.function)) is not None:
        return failure
    if not program.compared:
        return True, None, {}, {"verification": "not compared", "score": None}
    outputs: dict[str, Digest] = {}
    verdicts: dict[str, Verdict] = {}
    for index, (name, declared) in enumerate(zip(names, results, strict=True)):
        wanted = data.digests.get(f"expected_{index}")
        if name == "-" or wanted is None:
            continue  # a bare number: printed, not compared
        got, expected = (place.scratch / name).read_bytes(), place.store.path(wanted[0]).read_bytes()
        if len(got) != len(expected):
            reason = f"result {index} ({declared}) has {len(got)} B; {len(expected)} are expected"
            return False, reason, place.log(), {"verification": "not compared"}
        verdicts[str(index)] = _compared_bytes(got, expected, declared, program.rtol)
        if not verdicts[str(index)].passed:
            outputs[f"got_{index}"] = place.store.put_bytes(got)
    if not verdicts:
        return True, None, {}, {"verification": "not compared", "score": None}
    untyped = [str(index) for index, declared in enumerate(results) if module.shape_of(declared) is None]
    return _judged(verdicts, outputs, untyped)


def _compared_bytes(got: bytes, expected: bytes, declared: str, rtol: str | None) -> Verdict:
    """Tolerance: rtol · (|expected| + its root mean square), so that an element that cancels to nothing is judged by
    the others' size; bits where there is no tolerance."""
    import numpy as np

    from dispatchflow import given

    known, tolerance = module.shape_of(declared), given.tolerance(declared, rtol)
    arrays = [np.frombuffer(b, inputs.dtype_of(known[1]) if known else np.uint8) for b in (got, expected)]
    if known is not None and None not in known[0]:
        arrays = [array.reshape([size or 0 for size in known[0]]) for array in arrays]
    if tolerance is None:
        return verdict.compare_bits(*arrays)
    wide = arrays[1].astype(np.float64)
    finite = abs(wide[np.isfinite(wide)])
    largest = float(finite.max(initial=0.0)) or 1.0  # of a number beyond 1e154 the square is infinite
    scale = largest * float(np.sqrt(np.mean((finite / largest) ** 2))) if finite.size else 0.0
    with np.errstate(invalid="ignore"):  # 0 × inf: what is expected to be infinite is within no tolerance of a number
        bounds = tolerance * (abs(wide) + scale)
    return verdict.compare_bounded(arrays[0], wide, bounds)


def _judged(verdicts: Mapping[str, Verdict], outputs: dict[str, Digest], untyped: Collection[str] = ()) -> Result:
    """`untyped`: of which bytes were compared."""
    wrong = {recipe: v for recipe, v in verdicts.items() if v.word == "different"}
    last = list(verdicts.values())[-1]
    worst = next(iter(wrong.values()), last)
    words = {v.word for v in verdicts.values()}
    word = next(w for w in ("different", "mistrusted", "within bound", "equal") if w in words)
    scores = [v.score for v in verdicts.values() if v.score is not None]
    facts: dict[str, Any] = {
        "verification": word,
        "score": max(scores, default=None),
        "rungs": {r: v.word for r, v in verdicts.items()},
    }
    if worst.worst is not None:
        facts |= {
            "worst_index": worst.worst.index,
            "worst_got": worst.worst.got,
            "worst_expected": worst.worst.expected,
        }
    if not wrong:
        return True, None, outputs, facts
    recipe = next(iter(wrong))
    assert worst.worst is not None
    place = ", ".join(map(str, worst.worst.index))
    which = f"result {recipe}" if recipe.isdecimal() else f"the {recipe} inputs"
    what = units.count(worst.wrong, "byte" if recipe in untyped else "element")
    wrongs = f"{what} of {which} {'is' if worst.wrong == 1 else 'are'} wrong"
    return (
        False,
        f"{wrongs}; worst at [{place}]: got {worst.worst.got}, expected {worst.worst.expected}",
        outputs,
        facts,
    )
