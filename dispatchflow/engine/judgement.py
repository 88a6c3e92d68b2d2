"""Combine the verdicts on the parts of a verification into the result of the whole verification."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dispatchflow import units
from dispatchflow.engine.call import Result
from dispatchflow.engine.repeatability import Difference
from dispatchflow.keys import Digest
from dispatchflow.store.facts import Facts
from dispatchflow.verification.verdict import Verdict, Worst

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array


def doubted(found: Difference, why: str, first: Result, second: Result) -> Result:
    """Return the outcome of a verification in which two calls of the same code gave different values.

    `first` is the outcome with the values of the first call. `second` is the outcome with the values of the second
    call. `why` describes the difference in words."""
    ok, reason, outputs, facts = second if first[0] else first
    if not ok:
        return False, f"{why}; {reason}", outputs, facts
    # The verification fails: memory that was never written is certainly the cause.
    if found.steady:
        worst = next(iter(found.verdicts.values())).worst
        assert worst is not None
        return False, why, outputs, facts | {"verification": "different", **_worst(worst)}
    word = "not compared" if facts["verification"] == "not compared" else "mistrusted"
    return True, None, outputs, facts | {"verification": word, "why": why}


def _worst(worst: Worst) -> Facts:
    return {"worst_index": worst.index, "worst_got": worst.got, "worst_expected": worst.expected}


def judged(
    verdicts: Mapping[str, Verdict],
    outputs: dict[str, Digest],
    untyped: Collection[str] = (),
    why: str | None = None,
) -> Result:
    """Return the result of a verification. It is a failure if any verdict is `different`.

    Args:
        verdicts: the verdict on each part, by the part's name. The name is that of a set of inputs, such as `exact`,
            or the index of a module's result, such as `0`.
        outputs: the name and the digest of each file to keep.
        untyped: the indices of the module's results that were compared byte by byte.
        why: the reason to distrust values that look right; None if there is no such reason.
    """
    wrong = {recipe: v for recipe, v in verdicts.items() if v.word == "different"}
    last = list(verdicts.values())[-1]
    worst = next(iter(wrong.values()), last)
    words = {v.word for v in verdicts.values()} | ({"mistrusted"} if why else set())
    word = next(w for w in ("different", "mistrusted", "within bound", "equal") if w in words)
    scores = [v.score for v in verdicts.values() if v.score is not None]
    facts: Facts = {
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
    of_module = recipe.isdecimal()
    on = "" if of_module else f' on the set of inputs "{recipe}"'
    values = f"got {worst.worst.got}, expected {worst.worst.expected}"
    if not worst.worst.index:  # a bare number or a tensor of rank 0
        return False, f"{f'result {recipe}' if of_module else 'the result'} is wrong{on}: {values}", outputs, facts
    noun = "byte" if recipe in untyped else "element"
    what = (
        f"{units.count(worst.wrong, noun)} of result {recipe}"
        if of_module
        else units.count(worst.wrong, f"result {noun}")
    )
    wrongs = f"{what} {'is' if worst.wrong == 1 else 'are'} wrong{on}"
    return False, f"{wrongs}; worst at [{place}]: {values}", outputs, facts


def like(shape: Sequence[int], dtype: Any) -> Array:
    """Return an array of the given shape and type that needs no memory for its elements."""
    import numpy as np

    array: Array = np.broadcast_to(np.zeros((), dtype), shape)
    return array
