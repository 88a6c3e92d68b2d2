"""Call an operation, and compare its results with the expected results (docs/verification.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dispatchflow import units
from dispatchflow.engine import judgement, repeatability
from dispatchflow.engine.actions import Data
from dispatchflow.engine.call import ModuleCall, Result
from dispatchflow.operations import Operation
from dispatchflow.store import disk
from dispatchflow.verification import inputs, verdict
from dispatchflow.verification.verdict import Verdict

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array


def verify_operation(place: ModuleCall, operation: Operation, data: Data) -> Result:
    """Call an operation on the inputs of each recipe, and compare its results with the expected results.

    A recipe is a way to make inputs. It decides whether results are compared bit by bit or within an error bound.
    The call on the last recipe's inputs is repeated, to check that it gives the same results."""
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
        verdicts[recipe] = _compared(place, recipe, inputs.read(output, dtype, result.shape), operation, data)
    found = repeatability.difference(
        place, data, recipe, (name,), operation.function, [judgement.like(result.shape, dtype)]
    )
    if isinstance(found, tuple):
        return found
    unseen = place.store.path(data.digests["expected_unseen"][0]).read_text(encoding="utf-8").splitlines()
    doubt = f"the recipes would not detect {_listed(unseen)}" if unseen else None
    judged = judgement.judged(verdicts, {}, why=doubt)
    wrong = [recipe for recipe, v in verdicts.items() if v.word == "different"]
    if found is not None:
        again = place.scratch / found.second[0]
        second = verdicts | {recipe: _compared(place, recipe, inputs.read(again, dtype, result.shape), operation, data)}
        judged = judgement.doubted(
            found, found.text(f"the {recipe} inputs' result"), judged, judgement.judged(second, {}, why=doubt)
        )
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
        return inputs.read(place.store.path(data.digests[f"expected_{name}"][0]), dtype, got.shape)

    if operation.compares_bits(recipe):
        return verdict.compare_bits(got, wanted(recipe, got.dtype))
    bounds = (wanted(f"{recipe}_{name}", "float64") for name in ("reference", "tolerance"))
    found = verdict.compare_bounded(got, *bounds)
    # Only the last recipe, whose inputs are measured, has a score: with others, rounding alone can use up the bound.
    return replace(found, score=None) if found.passed and recipe != operation.recipes[-1] else found
