"""Call a function of a user's module and compare its results with expected ones (docs/modules.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from dispatchflow import units
from dispatchflow.cases import module
from dispatchflow.cases.module import ELEMENT_TYPES, Module
from dispatchflow.engine import judgement, repeatability
from dispatchflow.engine.actions import Data
from dispatchflow.engine.call import ModuleCall, Result
from dispatchflow.keys import Digest
from dispatchflow.store.store import Store
from dispatchflow.verification import inputs, verdict
from dispatchflow.verification.verdict import Verdict

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array

Types = list[str]
"""The types of a function's results, with the sizes that the results have in one call."""


def verify_module(
    place: ModuleCall, program: Module, data: Data, results: Sequence[str], is_reference: bool = False
) -> Result:
    """Verify `program`, a function of a user's module.

    `results` are the declared result types. `is_reference` is true if the tested code or library itself computed the
    expected results."""
    own = place.doubt_as_reference if is_reference else None
    is_reference = is_reference and own is None
    # Compiled code is not compared with expected results that it computed itself (docs/modules.md).
    data = replace(data, digests={"given": data.digests["given"]}) if is_reference else data
    names = module.output_names(results)
    types = called(place, program, data, results, names)
    if isinstance(types, tuple):
        return types
    judged = _judged(place, program, data, types, names, own)
    found = _difference(place, program, data, types, names)
    if not isinstance(found, repeatability.Difference):
        ok, reason, outputs, facts = found or judged
        return ok, reason, outputs, facts | {"why": module.SAME_CODE} if is_reference and ok else facts
    second = _judged(place, program, data, types, found.second, own)
    kept = {f"second_{i}": place.store.put_file(place.scratch / found.second[i]) for i in found.verdicts}
    ok, reason, outputs, facts = judgement.doubted(found, _text(found, types), judged, second)
    return ok, reason, outputs | kept, facts


def results_of(place: ModuleCall, program: Module, data: Data, results: Sequence[str]) -> Result:
    """Call a module twice, and store its results as the expected results.

    Result 0 is stored as the output `0`, result 1 as the output `1`, and so on. The list of the results' types is the
    output `types`. If the two calls give different results, a failure is returned."""
    names = module.output_names(results)
    types = called(place, program, data, results, names)
    if isinstance(types, tuple):
        return types
    found = _difference(place, program, data, types, names)
    if isinstance(found, repeatability.Difference):
        return False, _text(found, types), place.log(), {}
    if found is not None:
        return found
    outputs = {str(i): place.store.put_file(place.scratch / name) for i, name in enumerate(names)}
    return True, None, outputs | put_types(place.store, types), {}


def put_types(store: Store, types: Sequence[str]) -> dict[str, Digest]:
    """Store the types of expected results as one text. Return the dict `{"types": digest of the text}`.

    The text has one line for each result. The line of an unknown type is empty."""
    return {"types": store.put_bytes("".join(f"{type}\n" for type in types).encode())}


def called(
    place: ModuleCall, program: Module, data: Data, results: Sequence[str], names: Sequence[str]
) -> Types | Result:
    """Call the module, write its results into the files `names`, and return the results' types.

    `results` are the declared types, which may have dynamic sizes. The returned types have the sizes of this call, if
    known. If the call fails, the failure is returned instead."""
    if (failure := place.call(data, "given", names, program.function)) is not None:
        return failure
    types = list(results)
    if all(module.is_sized(declared) for declared in types):
        return types
    printed = place.result_types(data, program.function)
    if isinstance(printed, tuple):
        return printed
    for index, declared in enumerate(types):
        if module.is_sized(declared) or index not in printed:
            continue
        types[index] = module.with_sizes_of(printed[index], declared)
        held = (place.scratch / names[index]).stat().st_size
        if (needed := module.nbytes_of(types[index])) is not None and held != needed:
            reason = f"result {index} has {held} B in one call, and is {types[index]} in the next"
            return False, reason, place.log(), {"verification": "not compared"}
    return types


def _difference(
    place: ModuleCall, program: Module, data: Data, types: Types, names: Sequence[str]
) -> Result | repeatability.Difference | None:
    arrays = [_like((place.scratch / name).stat().st_size, type) for name, type in zip(names, types, strict=True)]
    return repeatability.difference(place, data, "given", names, program.function, arrays)


def _like(nbytes: int, type: str) -> Array:
    from dispatchflow.verification import module_data

    if module.is_scalar(type):
        return judgement.like((), module_data.number_type(type, nbytes))
    known = module.shape_of(type)
    return (
        judgement.like([size or 0 for size in known[0]], inputs.dtype_of(known[1]))
        if known
        else judgement.like((0,), "uint8")
    )


def _text(found: repeatability.Difference, types: Types) -> str:
    index = next(iter(found.verdicts))
    return found.text(f"result {index}", "byte" if str(index) in untyped(types) else "element")


def untyped(types: Types) -> list[str]:
    """Return the indices of the results whose type is unknown. Such results are compared as bytes."""
    return [
        str(index) for index, type in enumerate(types) if not module.is_scalar(type) and module.shape_of(type) is None
    ]


def _judged(
    place: ModuleCall, program: Module, data: Data, types: Types, names: Sequence[str], own: str | None
) -> Result:
    outputs: dict[str, Digest] = {}
    verdicts: dict[str, Verdict] = {}
    said = data.digests.get("expected_types")
    wanted_types = place.store.path(said[0]).read_text(encoding="utf-8").splitlines() if said else []
    for index, (name, type, wanted_type) in enumerate(zip_longest(names, types, wanted_types, fillvalue="")):
        wanted = data.digests.get(f"expected_{index}")
        if wanted is None:
            continue
        got, expected = (place.scratch / name).read_bytes(), place.store.path(wanted[0]).read_bytes()
        if (unlike := module.unlike(type, wanted_type)) is not None:
            outputs[f"got_{index}"] = place.store.put_bytes(got)
            return False, f"result {index} is {unlike}", outputs, {"verification": "different", "score": None}
        if not module.is_scalar(type) and len(got) != len(expected):
            reason = f"result {index} ({type}) has {len(got)} B; {len(expected)} are expected"
            return False, reason, place.log(), {"verification": "not compared"}
        if (found := compared(got, expected, type, program.rtol)) is None:
            continue
        verdicts[str(index)] = found
        if not found.passed:
            outputs[f"got_{index}"] = place.store.put_bytes(got)
    if not verdicts:
        return True, None, {}, {"verification": "not compared", "score": None}
    doubts = [own] if own else []
    doubts += [doubt(int(index), v) for index, v in verdicts.items() if v.word == "mistrusted"]
    doubts += [f"result {i} was not compared" for i in range(len(types)) if str(i) not in verdicts]
    doubts += [f"the sizes of result {i} are unknown" for i, type in enumerate(types) if not module.is_sized(type)]
    return judgement.judged(verdicts, outputs, untyped(types), next(iter(doubts), None))


def compared(got: bytes, expected: bytes, type: str, rtol: str | None) -> Verdict | None:
    """Compare a result with the expected result. Returns None if the two cannot be compared.

    A floating-point result is wrong if an element is beyond the loose tolerance (docs/modules.md). A result that is not
    wrong is `mistrusted` if an element is beyond the tight tolerance, or if no expected element is finite. Other types
    are compared bit by bit."""
    import numpy as np

    from dispatchflow.verification import module_data, tolerances

    one, other = array_of(got, type), array_of(expected, type)
    if one is None or other is None:
        return None
    known = module.shape_of(type)
    element = known[1] if known else ELEMENT_TYPES.get(f"f{8 * len(got)}") if type in ("f32", "f64") else None
    if element is None or not element.is_float:
        return verdict.compare_bits(one, other)
    wide = other.astype(np.float64)
    tight, loose = tolerances.tolerances(wide, element, module_data.tolerance(element, rtol))
    found = verdict.compare_bounded(one, wide, tight)
    if found.word == "different" and verdict.compare_bounded(one, wide, loose).passed:
        return replace(found, word="mistrusted")
    if found.passed and wide.size and not np.isfinite(wide).any():
        return replace(found, word="mistrusted")
    return found


def array_of(content: bytes, type: str) -> Array | None:
    """Return a result's bytes as an array. Returns None for a scalar of an unsupported type, such as f16.

    If a size of the result is unknown, the array is flat. If the type is unknown, the array's elements are bytes."""
    import numpy as np

    from dispatchflow.verification import module_data

    if module.is_scalar(type):
        return module_data.number(content, type)
    if (known := module.shape_of(type)) is None:
        return np.frombuffer(content, np.uint8)
    array: Array = np.frombuffer(content, inputs.dtype_of(known[1]))
    return array if None in known[0] else array.reshape([size or 0 for size in known[0]])


def doubt(index: int, found: Verdict) -> str:
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
