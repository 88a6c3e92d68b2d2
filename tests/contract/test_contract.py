"""A few cases cover all operations and tunings of llvm-cpu and vmvx, and give correct results.

A case with a known failure may fail to compile. `doit check_all` tests many more cases."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path, PurePath

import pytest
from support.all_cases import CASES, EVERYTHING
from support.once import once
from support.product import RUN_HERE, SHAPES, TUNING, chosen_of, operation_of
from support.project import REPOSITORY
from support.skips import unsupported_reason

from dispatchflow.cases import known_failures
from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.cases.known_failures import KnownFailures
from dispatchflow.iree.targets import TARGETS, Target, named
from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.planning import parser, plan
from dispatchflow.project.workspace import Workspace
from dispatchflow.store.entries import Record
from dispatchflow.tunings import TUNINGS, Tuning
from dispatchflow.verification import power
from dispatchflow.verification.verdict_words import PASSED

pytestmark = pytest.mark.iree


KNOWN = KnownFailures(known_failures.shipped(), "", lambda log: "", lambda target: ["avx512f"])


Words = frozenset[object]
_SIGNATURE, _TUNING = 1, 4
"""The indices of the type and the tuning in the tuples of choices of `support.product.everything`."""


_LIKE_MATMUL = ("batch_matmul", "chain", "matmul_splitk", "matvec", "vecmat")
"""Operations that are compiled like `matmul`. Only `doit check_all` tests them with all types."""


def words_of(choice: tuple[object, ...], case: Case) -> Words:
    """Return a set of properties of `case`, such as its layout.

    `choice` describes the case: (operation, type, layout, option values, tuning, target, shape)."""
    own = [*choice, case.operation.types.result]
    own[_TUNING] = case.tuning.family
    if choice[0] in _LIKE_MATMUL:
        own[_SIGNATURE] = own[-1] = None
    return frozenset((*enumerate(own), case.tuning))


def covering(cases: dict[tuple[object, ...], Case], seen: Words = frozenset()) -> set[Case]:
    """Return a small subset of `cases` that has each property (`words_of`) of any case.

    Properties in `seen` may be missing in the subset. If several cases are equally good, one with the default tuning is taken."""
    # With other tunings, some element types, such as i4, take up to ten times as long to compile.
    quickly = sorted(cases.items(), key=lambda item: item[1].tuning.family != "default")
    choices = {choice: words_of(choice, case) for choice, case in quickly}
    missing = set().union(*choices.values()) - set(seen)
    chosen = set()
    while missing:
        best = max(choices, key=lambda choice: len(choices[choice] & missing))
        missing -= choices.pop(best)
        chosen.add(cases[best])
    return chosen


def quick(name: str, seen: Words) -> set[Case]:
    """Return a few cases that together use every layout, option and tuning of the operation `name`.

    The cases need not use the layouts, options and tunings in `seen`, because other cases use them."""
    own = {choice: case for choice, case in CASES.items() if choice[0] == name}
    # A case with a known failure is taken only for a property that no other case has.
    sure = {choice: case for choice, case in own.items() if not KNOWN.covering(case)}
    found = covering(sure, seen)
    seen = seen.union(*(words_of(choice, case) for choice, case in sure.items() if case in found))
    return found | covering(own, seen)


COVERING: set[Case] = set()
for name in sorted(OPERATIONS, key=lambda name: name != "matmul"):  # which takes most tunings, with all numbers
    COVERING |= quick(name, frozenset(case.tuning for case in COVERING))
PARAMETERS = [pytest.param(case, id=case.name) for case in CASES.values() if case in COVERING]


def tuning_of(name: str) -> Tuning:
    return next(filter(None, (family.parse(name) for family in TUNINGS.values())))


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return a project that all pytest workers share, so that each result is made only once."""
    return Workspace(once(tmp_path_factory, "contract", Path.mkdir), {})


@pytest.fixture
def records(case: Case, workspace: Workspace) -> tuple[Record, Record | None]:
    compiled = workspace.executor.compile(case)
    return compiled, workspace.executor.verify(case, workspace.resolver.chain(case).device)


@pytest.mark.parametrize("case", PARAMETERS)
def test_a_case_compiles_as_requested_or_is_a_known_failure(
    case: Case, records: tuple[Record, Record | None], workspace: Workspace
) -> None:
    compiled, _ = records
    if not compiled.ok:
        assert workspace.resolver.chain(case).known is not None, compiled.reason
        return

    assert compiled.facts["code_bytes"] > 0
    assert compiled.facts["applied"]


@pytest.mark.parametrize("case", PARAMETERS)
def test_the_result_of_a_compiled_case_is_right(case: Case, records: tuple[Record, Record | None]) -> None:
    compiled, verified = records
    if not compiled.ok:
        pytest.skip("it does not compile, which the test before judges")

    assert verified is not None
    assert verified.ok, verified.reason
    assert verified.facts["verification"] in (["mistrusted"] if power.unseen(case.operation) else PASSED)
    # Integers have no rounding to allow for.
    assert (verified.facts["verification"] == "equal") >= case.operation.bitwise


def test_check_all_makes_the_whole_product() -> None:
    import check_all  # which imports `EVERYTHING` as this file does

    found = plan.expand(parser.parse(check_all.spec(), PurePath("everything.toml"), {}))

    assert set(found.cases) == set(CASES.values())
    assert set(found.cases) > COVERING
    assert {skip.name for skip in found.skips} == {case.name for case in EVERYTHING.values()} - {
        case.name for case in CASES.values()
    }


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_word_of_every_registry_occurs_in_the_quick_cases(name: str) -> None:
    quick = [case for case in COVERING if case.operation.name == name]
    cases = [case for case in CASES.values() if case.operation.name == name]

    if name not in _LIKE_MATMUL:
        assert {case.operation.signature for case in quick} == set(OPERATIONS[name].signatures.values())
        assert {case.operation.types.result for case in quick} == {case.operation.types.result for case in cases}
    assert {case.operation.layout for case in quick} == set(OPERATIONS[name].layouts)
    assert {case.operation.chosen for case in quick} >= set(chosen_of(OPERATIONS[name]))
    assert {case.tuning.family for case in quick} == {case.tuning.family for case in cases}
    assert {case.target for case in quick} == set(RUN_HERE.values())


def test_every_tuning_occurs_in_the_quick_cases() -> None:
    assert {case.tuning for case in COVERING} == {case.tuning for case in CASES.values()}


# --- skips: the compiler refuses what planning skips


def _first(wanted: Callable[[Operation, Tuning, Target], bool], target: Target) -> Operation | None:
    cls = OPERATIONS["matmul"]  # which takes every element type and tuning
    for signature in cls.signatures:
        operation = operation_of(cls, SHAPES[0], signature, cls.layouts[0])
        if wanted(operation, TUNING[0], target):
            return operation
    return None


FOREIGN = [
    pytest.param(tuning, target, id=f"{family}-{target.name}")
    for target in RUN_HERE.values()
    for family, cls in TUNINGS.items()
    for tuning in islice(cls.expand({}), 1)
    if _first(lambda o, t, target: t is not None and unsupported_reason(o, TUNING[0], target) is None, target)
    and all(case.tuning.family != family for case in CASES.values() if case.target is target)
]


@pytest.mark.parametrize(("tuning", "target"), FOREIGN)
def test_a_tuning_of_another_backend_is_refused_by_the_compiler(
    tuning: Tuning, target: Target, workspace: Workspace
) -> None:
    operation = _first(lambda o, t, target: unsupported_reason(o, t, target) is None, target)
    assert operation is not None

    compiled = workspace.executor.compile(Case(Dispatch(operation, tuning), target, 1))

    assert not compiled.ok


@pytest.mark.parametrize(
    ("name", "shape", "tuning"),
    [
        ("matmul", (24, 24, 8), "double_tiling_12x12_4x8x4"),
        ("matmul", (16, 16, 8), "double_tiling_128x128_16x16x1024"),
        ("conv2d", (2, 6, 6, 4, 8, 3, 3), "conv_tile_and_decompose_0x4x4x6_1x1x8x8_3x3x64"),
    ],
)
def test_tiles_are_cut_off_and_need_not_divide_each_other(
    name: str, shape: tuple[int, ...], tuning: str, workspace: Workspace
) -> None:
    asked = tuning_of(tuning)
    operation, target = OPERATIONS[name].make(shape, "f32"), TARGETS["llvm-cpu"]
    assert unsupported_reason(operation, asked, target) is None

    compiled = workspace.executor.compile(Case(Dispatch(operation, asked), target, 1))

    assert compiled.ok, compiled.reason


def test_the_caching_page_describes_what_the_compiler_does(workspace: Workspace) -> None:
    # The page shows a configuration equal to the compiler's own, and another that the compiler refuses.
    page = (REPOSITORY / "docs/caching.md").read_text()
    asked = re.findall(r"compile matmul_64x64x64_f32t_f32t_f32t_(double_tiling_\w+)@(\S+)-1t", page)
    asked += re.findall(r"16384 bytes.*\(matmul_64x64x64_f32t_f32t_f32t_(double_tiling_\w+)@(\S+)-1t\)", page)
    made = [("default", asked[0][1]), *asked]
    operation = OPERATIONS["matmul"].make((64, 64, 64))
    compiled = [
        workspace.executor.compile(Case(Dispatch(operation, tuning_of(name)), named(target), 1))
        for name, target in made
    ]

    own, same, refused = compiled
    assert same.facts["code_digest"] == own.facts["code_digest"]
    assert "large vector sizes (16384 bytes)" in (refused.reason or "")


def test_a_vector_tile_that_is_too_large_fails_with_the_compilers_reason(workspace: Workspace) -> None:
    # The generic CPU has no AVX, so the compiler refuses the tile on every machine.
    tuning = TUNINGS["double_tiling"].parse("double_tiling_64x64_8x32x31")
    operation = operation_of(OPERATIONS["matmul"], (64, 64, 64), "f32", "tt")
    assert tuning is not None
    assert unsupported_reason(operation, tuning, TARGETS["llvm-cpu"]) is None

    flags = (*TARGETS["llvm-cpu"].flags, "--iree-llvmcpu-target-cpu=generic")
    compiled = workspace.executor.compile_module(Dispatch(operation, tuning).module().encode(), flags)

    assert not compiled.ok
    assert "large vector sizes" in (compiled.reason or "")
    assert "large vector sizes" in workspace.store.path(compiled.outputs["log"]).read_text()
