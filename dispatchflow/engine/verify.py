"""Calls a compiled module and compares what it gives: the ladder of docs/verification.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatchflow import units
from dispatchflow.cases import module
from dispatchflow.cases.module import Module
from dispatchflow.engine import repeatability
from dispatchflow.engine.actions import Data
from dispatchflow.engine.call import ModuleCall, Result
from dispatchflow.keys import Digest
from dispatchflow.operations import Operation
from dispatchflow.store import disk
from dispatchflow.verification import inputs, verdict
from dispatchflow.verification.verdict import Verdict, Worst

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array


def verify_operation(place: ModuleCall, operation: Operation, data: Data) -> Result:
    """On exact inputs bit by bit, on random ones within the bound; and these once more, as `repeatability` says."""
    verdicts: dict[str, Verdict] = {}
    result = operation.result()
    dtype, name = inputs.dtype_of(result.element), ""
    for recipe in operation.recipes:
        name = f"got_{recipe}.bin"
        if (failure := place.call(data, recipe, (name,), operation.function)) is not None:
            return failure
        output = place.scratch / name
        size = output.stat().st_size if output.exists() else 0
        if size != result.nbytes:
            disk.check(place.store.root)
            short = f"{size} B were written; the result has {result.nbytes}"
            return False, short, place.log(), {"verification": "not compared"}
        verdicts[recipe] = _compared(place, recipe, _array(output, dtype, operation), operation, data)
    found = repeatability.difference(place, data, recipe, (name,), operation.function, [_like(result.shape, dtype)])
    if isinstance(found, tuple):
        return found
    unseen = place.store.path(data.digests["expected_unseen"][0]).read_text(encoding="utf-8").splitlines()
    doubt = f"would not see {_listed(unseen)}" if unseen else None
    judged = _judged(verdicts, {}, why=doubt)
    wrong = [recipe for recipe, v in verdicts.items() if v.word == "different"]
    if found is not None:
        again = place.scratch / found.second[0]
        second = verdicts | {recipe: _compared(place, recipe, _array(again, dtype, operation), operation, data)}
        judged = _doubted(found, found.text(f"the {recipe} inputs' result"), judged, _judged(second, {}, why=doubt))
        wrong = list(dict.fromkeys((*wrong, recipe)))
    ok, reason, _, facts = judged
    outputs = {f"got_{recipe}": place.store.put_file(place.scratch / f"got_{recipe}.bin") for recipe in wrong}
    outputs |= {f"second_{recipe}": place.store.put_file(again)} if found is not None else {}
    return ok, reason, outputs, facts


def _listed(errors: Sequence[str]) -> str:
    more = f" and {units.count(len(errors) - 2, 'other error')}" if len(errors) > 2 else ""
    return " or ".join(errors[:2]) + more


def _compared(place: ModuleCall, recipe: str, got: Array, operation: Operation, data: Data) -> Verdict:
    def wanted(name: str, dtype: Any) -> Array:
        return _array(place.store.path(data.digests[f"expected_{name}"][0]), dtype, operation)

    if operation.compares_bits(recipe):
        return verdict.compare_bits(got, wanted(recipe, got.dtype))
    bounds = (wanted(f"{recipe}_{name}", "float64") for name in ("reference", "tolerance"))
    found = verdict.compare_bounded(got, *bounds)
    # A row's score is that of the measured inputs: of others a tolerance may be what the last rounding alone makes.
    return replace(found, score=None) if found.passed and recipe != operation.recipes[-1] else found


def _array(path: Path, dtype: Any, operation: Operation) -> Array:
    result = operation.result()
    array: Array = inputs.read(path, dtype)[: result.size].reshape(result.shape)
    return array


def _like(shape: Sequence[int], dtype: Any) -> Array:
    """An array of this type and shape, which takes no memory."""
    import numpy as np

    array: Array = np.broadcast_to(np.zeros((), dtype), shape)
    return array


def verify_module(
    place: ModuleCall, program: Module, data: Data, results: Sequence[str], is_reference: bool = False
) -> Result:
    """Each result against the expected one; `not compared`, and no failure, where there is none, or where this code
    itself made it. Whatever it is compared with, it is called twice, as `repeatability` says."""
    data = Data({"given": data.digests["given"]}, data.arguments) if is_reference else data
    names = module.output_names(results)
    if (failure := place.call(data, "given", names, program.function)) is not None:
        return failure
    judged = _judged_module(place, program, data, results, names)
    found = repeatability.difference(place, data, "given", names, program.function, [_of_result(r) for r in results])
    if not isinstance(found, repeatability.Difference):
        ok, reason, outputs, facts = found or judged
        return ok, reason, outputs, facts | {"why": module.SAME_CODE} if is_reference and ok else facts
    second = _judged_module(place, program, data, results, found.second)
    kept = {f"second_{i}": place.store.put_file(place.scratch / found.second[i]) for i in found.verdicts}
    ok, reason, outputs, facts = _doubted(found, _text(found, results), judged, second)
    return ok, reason, outputs | kept, facts


def unsound(place: ModuleCall, program: Module, data: Data, results: Sequence[str]) -> Result | None:
    """Why what a module gives here is no reference: the call failed, or another one gave something else. None where it
    can be one: then its results lie in the files of `module.output_names`."""
    names = module.output_names(results)
    if (failure := place.call(data, "given", names, program.function)) is not None:
        return failure
    found = repeatability.difference(place, data, "given", names, program.function, [_of_result(r) for r in results])
    if isinstance(found, repeatability.Difference):
        return False, _text(found, results), place.log(), {}
    return found


def _text(found: repeatability.Difference, results: Sequence[str]) -> str:
    index = next(iter(found.verdicts))
    return found.text(f"result {index}", "byte" if str(index) in _untyped(results) else "element")


def _judged_module(
    place: ModuleCall, program: Module, data: Data, results: Sequence[str], names: Sequence[str]
) -> Result:
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
    doubts = [_doubt(int(index), v) for index, v in verdicts.items() if v.word == "mistrusted"]
    return _judged(verdicts, outputs, _untyped(results), next(iter(doubts), None))


def _untyped(results: Sequence[str]) -> list[str]:
    """The places of results of which bytes are compared: their type is not known."""
    return [str(index) for index, declared in enumerate(results) if module.shape_of(declared) is None]


def _of_result(declared: str) -> Array:
    """Empty where a size is not known."""
    known = module.shape_of(declared)
    return _like([size or 0 for size in known[0]], inputs.dtype_of(known[1])) if known else _like((0,), "uint8")


def _compared_bytes(got: bytes, expected: bytes, declared: str, rtol: str | None) -> Verdict:
    """Within the tight tolerance right, beyond the loose one wrong, between them `mistrusted`, as `tolerances` says it;
    bits where there is none. Mistrusted too where no number is compared."""
    import numpy as np

    from dispatchflow.verification import module_data, tolerances

    known, tolerance = module.shape_of(declared), module_data.tolerance(declared, rtol)
    arrays = [np.frombuffer(b, inputs.dtype_of(known[1]) if known else np.uint8) for b in (got, expected)]
    if known is not None and known[0].count(None) <= 1 and arrays[0].size:
        arrays = [array.reshape([-1 if size is None else size for size in known[0]]) for array in arrays]
    if known is None or tolerance is None:
        return verdict.compare_bits(*arrays)
    wide = arrays[1].astype(np.float64)
    tight, loose = tolerances.tolerances(wide, known[1], tolerance)
    found = verdict.compare_bounded(arrays[0], wide, tight)
    if found.word == "different" and verdict.compare_bounded(arrays[0], wide, loose).passed:
        return replace(found, word="mistrusted")
    if found.passed and wide.size and not np.isfinite(wide).any():
        return replace(found, word="mistrusted")
    return found


def _doubt(index: int, found: Verdict) -> str:
    """Why a result of a module is mistrusted."""
    if not found.wrong:
        return f"no element of result {index} is a finite number"
    assert found.worst is not None
    place = ", ".join(map(str, found.worst.index))
    values = f"at [{place}]: got {found.worst.got}, expected {found.worst.expected}"
    off = (
        "is off by more than rtol allows for one of its size"
        if found.wrong == 1
        else "are off by more than rtol allows for their size"
    )
    what = f"{units.count(found.wrong, 'element')} of result {index} {off}, though not for the largest"
    return f"{what}; {values}"


def _doubted(found: repeatability.Difference, why: str, first: Result, second: Result) -> Result:
    """Of two calls that differ, what each was judged: never right where memory decides, and where chance does, wrong as
    soon as one of them is."""
    ok, reason, outputs, facts = second if first[0] else first
    if not ok:
        return False, f"{why}; {reason}", outputs, facts
    if found.steady:
        worst = next(iter(found.verdicts.values())).worst
        assert worst is not None
        return False, why, outputs, facts | {"verification": "different", **_worst(worst)}
    word = "not compared" if facts["verification"] == "not compared" else "mistrusted"
    return True, None, outputs, facts | {"verification": word, "why": why}


def _worst(worst: Worst) -> dict[str, Any]:
    return {"worst_index": worst.index, "worst_got": worst.got, "worst_expected": worst.expected}


def _judged(
    verdicts: Mapping[str, Verdict],
    outputs: dict[str, Digest],
    untyped: Collection[str] = (),
    why: str | None = None,
) -> Result:
    """`untyped`: of which bytes were compared. `why` it is mistrusted, though nothing is wrong."""
    wrong = {recipe: v for recipe, v in verdicts.items() if v.word == "different"}
    last = list(verdicts.values())[-1]
    worst = next(iter(wrong.values()), last)
    words = {v.word for v in verdicts.values()} | ({"mistrusted"} if why else set())
    word = next(w for w in ("different", "mistrusted", "within bound", "equal") if w in words)
    scores = [v.score for v in verdicts.values() if v.score is not None]
    facts: dict[str, Any] = {
        "verification": word,
        "score": max(scores, default=None),
        "rungs": {r: v.word for r, v in verdicts.items()},
    }
    facts |= {"why": why} if why and not wrong else {}
    if worst.worst is not None:
        facts |= _worst(worst.worst)
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
