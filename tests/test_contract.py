"""What every operation, tuning and target must hold, over the registries: a new one is covered without a line here.

The product is `doit check_all`. Here every pair of choices of a plain matmul (this type with that tuning, this layout
with that shape, …) occurs in at least one case but for rarer types, and of options and the other operations every choice.
"""

from __future__ import annotations

import gc
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations, cycle, islice, product
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace as replace_struct
from real import runtime_folder, write_script

from dispatchflow import plan, spec
from dispatchflow.dispatch import Case, Dispatch, _module
from dispatchflow.keys import Digest
from dispatchflow.limits import Limits
from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.plan import unsupported_reason
from dispatchflow.records import Record
from dispatchflow.results import PASSED
from dispatchflow.targets import TARGETS, Target
from dispatchflow.tunings import TUNINGS, Lowering, Tuning
from dispatchflow.types import ElementType
from dispatchflow.workspace import Workspace

pytestmark = pytest.mark.iree

TUNING = tuple(tuning for family in TUNINGS.values() for tuning in family.expand({}))
DEFAULT = TUNINGS["default"].expand({})[0]
# Named CPUs are llvm-cpu again; other devices' compilers refuse what they will: tests/test_devices.py.
RUN_HERE = {name: TARGETS[name] for name in ("llvm-cpu", "vmvx")}
SHAPES = ((40, 24, 56), (1, 24, 40))
"""Multiples of no tile; and a dim of 1. Repeated where an operation has more dims."""
SHAPES_OF: dict[str, tuple[tuple[int, ...], ...]] = {
    "conv2d": ((2, 11, 9, 6, 10, 3, 2), (1, 5, 8, 3, 7, 1, 3)),
    "quantized_conv2d": ((2, 11, 9, 5, 6, 3, 2), (1, 5, 8, 3, 7, 1, 3)),
    "depthwise_conv2d": ((2, 11, 9, 5, 3, 2), (1, 5, 8, 7, 1, 3)),
    "attention": ((2, 17, 24, 16, 33), (1, 5, 7, 9, 40)),
    "pooling": ((2, 11, 9, 5, 3, 2), (1, 5, 8, 7, 1, 3)),
    "matmul_splitk": ((40, 24, 54), (1, 24, 42)),
}
"""Instead of these, where a dim is a window's, or a multiple."""


LONE = {"i16", "i32", "i64", "f8E4M3FN", "f8E5M2", "split_k_2", "split_k_4", "split_k_8"}
"""Element types and tunings of a matmul that are not paired with everything else, nor are options: each pairing costs
a compile."""


def operation_of(
    cls: type[Operation], shape: tuple[int, ...], signature: str, layout: str, chosen: tuple[str | int, ...] = ()
) -> Operation:
    sizes = tuple(islice(cycle(shape), len(cls.dims)))
    return cls(sizes, cls.signatures[signature], layout, chosen or cls.make(sizes).chosen)


def chosen_of(cls: type[Operation]) -> Iterator[tuple[str | int, ...]]:
    """The defaults, then each other value of one option; of numbers the next after the default."""
    yield (defaults := tuple(option.default for option in cls.options.values()))
    for i, option in enumerate(cls.options.values()):
        for value in option.values[1:2] if isinstance(option.values, range) else option.values[1:]:
            yield (*defaults[:i], value, *defaults[i + 1 :])


def everything() -> Iterator[tuple[tuple[object, ...], Case]]:
    """Every combination of the registries, with the choices that it is made of: all types, layouts and tunings. An
    option that is not its default comes with the default layout and tuning; of the first type, with one of these two."""
    for cls in OPERATIONS.values():
        shapes = SHAPES_OF.get(cls.name, SHAPES)
        for choice in product(cls.signatures, cls.layouts, chosen_of(cls), TUNING, RUN_HERE.values(), shapes):
            signature, layout, chosen, tuning, target, shape = choice
            others = (layout != cls.layouts[0]) + (tuning != DEFAULT)
            if chosen != next(chosen_of(cls)) and others > (signature == next(iter(cls.signatures))):
                continue
            operation = operation_of(cls, shape, signature, layout, chosen)
            yield (
                (cls.name, signature, layout, chosen, tuning.name, target.name, shape),
                Case(Dispatch(operation, tuning), target, 1),
            )


def covering(cases: dict[tuple[object, ...], Case], together: int) -> set[Case]:
    """Few cases in which every so many choices occur together that do so at all. Greedy, the same each time."""
    pairs = {choice: set(combinations(enumerate(choice), together)) for choice in cases}
    open_pairs = set().union(*pairs.values())
    chosen = set()
    while open_pairs:
        best = max(pairs, key=lambda choice: len(pairs[choice] & open_pairs))
        open_pairs -= pairs.pop(best)
        chosen.add(cases[best])
    return chosen


EVERYTHING = dict(everything())
CASES = {
    choice: case
    for choice, case in EVERYTHING.items()
    if unsupported_reason(case.operation, case.tuning, case.target) is None
}
COVERING = covering(
    {
        choice: case
        for choice, case in CASES.items()
        if choice[0] == "matmul" and not LONE & {*choice} and choice[3] == next(chosen_of(type(case.operation)))
    },
    2,
)
for name in OPERATIONS:
    COVERING |= covering({choice: case for choice, case in CASES.items() if choice[0] == name}, 1)
PARAMETERS = [pytest.param(case, id=case.name) for case in CASES.values() if case in COVERING]


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """One store for all cases of this file that go well."""
    return Workspace(tmp_path_factory.mktemp("contract"), {})


@pytest.fixture(scope="session")
def records(request: pytest.FixtureRequest, workspace: Workspace) -> dict[Case, tuple[Record, Record | None]]:
    """(compiled, verified) of every case that a selected test asks for."""
    calls = (getattr(item, "callspec", None) for item in request.session.items)
    wanted = dict.fromkeys(call.params["case"] for call in calls if call is not None and "case" in call.params)

    def make(case: Case) -> tuple[Record, Record | None]:
        compiled = workspace.executor.compile(case)
        return compiled, workspace.executor.verify(case, workspace.resolver.chain(case).device)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(wanted, pool.map(make, wanted), strict=True))


@pytest.mark.parametrize("case", PARAMETERS)
def test_it_compiles_as_asked(case: Case, records: dict[Case, tuple[Record, Record | None]]) -> None:
    compiled, _ = records[case]

    assert compiled.ok, compiled.reason
    assert compiled.facts["code_bytes"] > 0
    assert compiled.facts["applied"]


@pytest.mark.parametrize("case", PARAMETERS)
def test_its_result_is_right(case: Case, records: dict[Case, tuple[Record, Record | None]]) -> None:
    _, verified = records[case]

    assert verified is not None
    assert verified.ok, verified.reason
    assert verified.facts["verification"] in PASSED
    # Integers have no rounding to allow for.
    assert (verified.facts["verification"] == "equal") >= case.operation.bitwise


def test_check_all_makes_the_whole_product() -> None:
    import check_all  # which takes the product from here

    found = plan.expand(spec.parse(check_all.spec(), PurePath("everything.toml"), {}))

    assert set(found.cases) == set(CASES.values())
    assert set(found.cases) > COVERING
    assert {skip.name for skip in found.skips} == {case.name for case in EVERYTHING.values()} - {
        case.name for case in CASES.values()
    }


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_word_of_every_registry_occurs_in_the_quick_cases(name: str) -> None:
    quick = [case for case in COVERING if case.operation.name == name]
    cases = [case for case in CASES.values() if case.operation.name == name]

    assert {case.operation.signature for case in quick} == set(OPERATIONS[name].signatures.values())
    assert {case.operation.layout for case in quick} == set(OPERATIONS[name].layouts)
    assert {case.operation.chosen for case in quick} >= set(chosen_of(OPERATIONS[name]))
    assert {case.tuning for case in quick} == {case.tuning for case in cases}
    assert {case.target for case in quick} == set(RUN_HERE.values())


# --- skips: what the plan does not even try, the compiler does not take


def _first(wanted: Callable[[Operation, Tuning, Target], bool], target: Target) -> Operation | None:
    cls = OPERATIONS["matmul"]  # which takes every element type and tuning
    for signature in cls.signatures:
        operation = operation_of(cls, SHAPES[0], signature, cls.layouts[0])
        if wanted(operation, TUNING[0], target):
            return operation
    return None


def _uses(operation: Operation, element: ElementType) -> bool:
    types = operation.signature
    return element in (*types.operands, types.accumulator, types.result)


LACKS = [
    pytest.param(target, element, id=f"{element.mlir}-{target.name}")
    for target in RUN_HERE.values()
    for element in target.lacks
]


@pytest.mark.parametrize(("target", "element"), LACKS)
def test_an_element_type_that_a_target_lacks_is_refused_by_the_compiler(
    target: Target, element: ElementType, workspace: Workspace
) -> None:
    operation = _first(lambda o, t, target: _uses(o, element), target)
    assert operation is not None
    case = Case(Dispatch(operation, TUNING[0]), target, 1)
    assert element.mlir in (unsupported_reason(operation, TUNING[0], target) or "")

    compiled = workspace.executor.compile(case)

    assert not compiled.ok
    assert (compiled.reason or "").startswith("compile failed: ")


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
    ("name", "shape"),
    [("matmul", (24, 40, 2)), ("matmul", (24, 40, 4)), ("matmul", (12, 16, 16)), ("batch_matmul", (3, 4, 2, 8)), ("batch_matmul", (3, 4, 8, 8))],
)  # fmt: skip
def test_vmvx_packs_bf16_only_where_nothing_is_padded(name: str, shape: tuple[int, ...], workspace: Workspace) -> None:
    operation, tuning = OPERATIONS[name].make(shape, "bf16"), TUNINGS["data_tiling"].expand({})[0]
    target = TARGETS["vmvx"]

    compiled = workspace.executor.compile(Case(Dispatch(operation, tuning), target, 1))

    assert compiled.ok == (unsupported_reason(operation, tuning, target) is None)


def test_a_vector_tile_too_large_is_refused_and_says_so(workspace: Workspace) -> None:
    """Without AVX the limit is lower than any that makes a skip, so that this refusal is the same on every machine."""
    tuning = TUNINGS["double_tiling"].parse("double_tiling_64x64_8x32x31")
    operation = operation_of(OPERATIONS["matmul"], (64, 64, 64), "f32", "tt")
    assert tuning is not None
    assert unsupported_reason(operation, tuning, TARGETS["llvm-cpu"]) is None

    flags = (*TARGETS["llvm-cpu"].flags, "--iree-llvmcpu-target-cpu=generic")
    compiled = workspace.executor.compile_module(Dispatch(operation, tuning).module().encode(), flags)

    assert not compiled.ok
    assert "large vector sizes" in (compiled.reason or "")
    assert "large vector sizes" in workspace.store.path(compiled.outputs["log"]).read_text()


# --- deliberately broken: the reference, the module, the configuration

SQUARE = (16, 16, 16)
"""Every dim alike, so that operands taken for each other and wrong transpositions have the right shapes."""


def default_case(cls: type[Operation], signature: str, layout: str | None = None) -> Case:
    operation = operation_of(cls, SQUARES_OF.get(cls.name, SQUARE), signature, layout or cls.layouts[0])
    return Case(Dispatch(operation, TUNINGS["default"].expand({})[0]), TARGETS["llvm-cpu"], 1)


SQUARES_OF: dict[str, tuple[int, ...]] = {
    "conv2d": (4, 4, 4, 4, 4, 4, 4),
    "quantized_conv2d": (4, 4, 4, 4, 4, 4, 4),
    "depthwise_conv2d": (2, 8, 8, 8, 3, 3),
    "pooling": (2, 8, 8, 8, 3, 3),
}
"""Instead of `SQUARE`, where a dim is a window's."""
SIGNATURES = [
    pytest.param(
        *(cls, word),
        id=f"{cls.name}-{word}",
        marks=() if cls.name == "matmul" or word == next(iter(cls.signatures)) else pytest.mark.slow,
    )
    for cls in OPERATIONS.values()
    for word in cls.signatures
]


@pytest.fixture(scope="session")
def compiled_squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which the default case of each signature is compiled and nothing else is made."""
    workspace = Workspace(tmp_path_factory.mktemp("squares"), {})
    cases = [default_case(*parameter.values) for parameter in SIGNATURES]
    with ThreadPoolExecutor(2) as pool:
        assert all(record.ok for record in pool.map(workspace.executor.compile, cases))
    root = workspace.root
    del workspace, pool
    gc.collect()  # the database's own files go with its last connection: not while the folder is copied
    return root


@pytest.fixture
def squares(compiled_squares: Path, tmp_path: Path) -> Iterator[Workspace]:
    shutil.copytree(compiled_squares, tmp_path / "squares")
    _module.cache_clear()  # whoever breaks a body has it printed anew, and nobody else gets that
    yield Workspace(tmp_path / "squares", {})
    _module.cache_clear()


def verified(workspace: Workspace, case: Case) -> Record:
    record = workspace.executor.verify(case, workspace.resolver.chain(case).device)
    assert record is not None, workspace.executor.compile(case).reason
    return record


def assert_different(record: Record, case: Case) -> None:
    assert not record.ok
    facts = record.facts
    assert facts["verification"] == "different"
    shape = case.operation.result().shape
    assert len(facts["worst_index"]) == len(shape)
    assert all(0 <= i < size for i, size in zip(facts["worst_index"], shape, strict=True))
    assert facts["worst_got"] != facts["worst_expected"]
    assert f"got {facts['worst_got']}, expected {facts['worst_expected']}" in (record.reason or "")
    assert any(name.startswith("got_") for name in record.outputs)


def without_last_term(operation: Operation, operands: list[Any]) -> list[Any]:
    """The last slice of the thinned-out operand's reduction axis is nothing."""
    changed = [operand.copy() for operand in operands]
    for operand, array in zip(operation.operands(), changed, strict=True):
        if operand.summed:
            array[tuple(-1 if axis in operand.summed else slice(None) for axis in range(array.ndim))] = 0
    return changed


def transposed(array: Any) -> Any:
    return np.swapaxes(array, -1, -2) if array.ndim > 1 else array


BROKEN_REFERENCES: dict[str, Callable[[Operation, list[Any]], list[Any]]] = {
    "drops the last term": without_last_term,
    "swaps operands": lambda operation, operands: operands[::-1],
    "transposes the last operand": lambda operation, operands: [*operands[:-1], transposed(operands[-1])],
    "transposes the first operand": lambda operation, operands: [transposed(operands[0]), *operands[1:]],
}


def matters(broken: str, cls: type[Operation], signature: str) -> bool:
    """Whether numbers like any others show it: a sum of two operands does not tell which is which."""
    operation = default_case(cls, signature).operation
    assert isinstance(operation, Operation)
    draw = np.random.default_rng(1)
    operands = [draw.uniform(1, 2, operand.type.shape) for operand in operation.operands()]
    wrong = BROKEN_REFERENCES[broken](operation, operands)
    if [array.shape for array in wrong] != [array.shape for array in operands]:
        return False
    return not np.allclose(operation.reference(wrong), operation.reference(operands), rtol=1e-3)


def pairs_of(broken: dict[str, Any], wanted: Callable[[str, type[Operation], str], bool]) -> list[Any]:
    """(what is broken, operation, signature) where that shows."""
    return [
        pytest.param(word, *parameter.values, id=f"{parameter.id}-{word}", marks=parameter.marks)
        for word in broken
        for parameter in SIGNATURES
        if wanted(word, *parameter.values)
    ]


@pytest.mark.parametrize(("cls", "signature"), SIGNATURES)
def test_the_squares_are_right_before_anything_is_broken(
    cls: type[Operation], signature: str, squares: Workspace
) -> None:
    assert verified(squares, default_case(cls, signature)).ok


@pytest.mark.parametrize(("broken", "cls", "signature"), pairs_of(BROKEN_REFERENCES, matters))
def test_a_broken_reference_is_told(
    broken: str, cls: type[Operation], signature: str, squares: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, right = default_case(cls, signature), cls.reference
    monkeypatch.setattr(cls, "reference", lambda self, operands: right(self, BROKEN_REFERENCES[broken](self, operands)))

    assert_different(verified(squares, case), case)


def other_layout(operation: Operation, body: Callable[..., str], attribute: str) -> str:
    """The last operand is read as if it lay the other way."""
    return body(replace(operation, layout=operation.layout[:-1] + "n"), attribute)


def begins_with_one(operation: Operation, body: Callable[..., str], attribute: str) -> str:
    return re.sub(r"arith\.constant 0(\.0)? ", r"arith.constant 1\1 ", body(operation, attribute))


def writes_the_first_half(operation: Operation, body: Callable[..., str], attribute: str) -> str:
    text, (rows, *rest) = body(operation, attribute), operation.result().shape
    result, element = operation.result().mlir, operation.result().element.mlir
    half = [rows // 2, *rest]
    sizes, zeros, ones = (", ".join(map(str, v)) for v in (half, [0] * len(half), [1] * len(half)))
    part = f"tensor<{'x'.join(map(str, half))}x{element}>"
    match = re.search(r"    return (%\w+) : .*\n$", text)
    assert match
    return f"""\
{text[: match.start()]}    %half = tensor.extract_slice {match[1]}[{zeros}] [{sizes}] [{ones}] : {result} to {part} loc(unknown)
    %nothing = tensor.empty() : {result} loc(unknown)
    %whole = tensor.insert_slice %half into %nothing[{zeros}] [{sizes}] [{ones}] : {part} into {result} loc(unknown)
    return %whole : {result} loc(unknown)
"""


BROKEN_BODIES = {
    "reads the last operand the other way": other_layout,
    "begins its sum with one": begins_with_one,
    "writes half of its result": writes_the_first_half,
}


def changes(broken: str, cls: type[Operation], signature: str) -> bool:
    """Whether there is something of this kind to break."""
    operation = default_case(cls, signature).operation
    assert isinstance(operation, Operation)
    if broken == "reads the last operand the other way" and operation.layout[:-1] + "n" not in cls.layouts:
        return False
    if broken == "writes half of its result" and not operation.result().shape:
        return False
    return BROKEN_BODIES[broken](operation, cls.body, "") != operation.body("")


@pytest.mark.parametrize(
    ("broken", "cls", "signature"),  # compiled each, so of the first type; tests/test_plants.py has others
    [p if p.values[2] == next(iter(p.values[1].signatures)) else pytest.param(*p.values, id=p.id, marks=pytest.mark.slow)
     for p in pairs_of(BROKEN_BODIES, changes)],
)  # fmt: skip
def test_a_broken_module_is_told(
    broken: str, cls: type[Operation], signature: str, squares: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, right = default_case(cls, signature), cls.body
    monkeypatch.setattr(cls, "body", lambda self, attribute: BROKEN_BODIES[broken](self, right, attribute))

    assert_different(verified(squares, case), case)


def of(name: str, sizes: tuple[int, ...], **options: str | int) -> Operation:
    return OPERATIONS[name].make(sizes, **options)  # type: ignore[arg-type]


CAUSAL = of("attention", (1, 8, 8, 8, 12), causal="yes")
QUANTIZED = of("quantized_conv2d", (1, 6, 6, 4, 4, 3, 3), padding=1, weight_zp=5)
GROUPED = of("conv2d", (1, 6, 6, 4, 4, 3, 3), groups=2)
CHANGED_WORDS: dict[str, tuple[Operation, str, str]] = {
    "causal from the first key": (CAUSAL, "%before = arith.constant 4", "%before = arith.constant 0"),
    "causal with a mask off by one": (replace(CAUSAL, chosen=("yes", "yes")), "cmpi sle", "cmpi slt"),
    "wrong zero point of the image": (QUANTIZED, "%scalar0 = arith.constant -128", "%scalar0 = arith.constant -127"),
    "padded with 0": (QUANTIZED, "%border = arith.constant -128", "%border = arith.constant 0"),
    "zero points swapped": (
        of("quantized_matmul", (16, 16, 16), weight_zp=5),
        "%arg1, %scalar0, %scalar1",
        "%arg1, %scalar1, %scalar0",
    ),
    "groups inside of channels": (GROUPED, "* 1 + j * 1, g, c)", "* 1 + j * 1, c, g)"),
    "one group for all": (GROUPED, "* 1 + j * 1, g, c)", "* 1 + j * 1, 0, c)"),
    "dynamic sizes and operands swapped": (
        of("matmul", (16, 16, 16), dynamic="mnk"),
        "ins(%arg0, %arg1",
        "ins(%arg1, %arg0",
    ),
}
"""What only an option has, and a module that has it wrong."""


def test_a_word_changed_in_a_module_is_told(squares: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    default, target = TUNINGS["default"].expand({})[0], TARGETS["llvm-cpu"]
    cases = {word: Case(Dispatch(planted[0], default), target, 1) for word, planted in CHANGED_WORDS.items()}
    for case in {planted[0]: cases[word] for word, planted in CHANGED_WORDS.items()}.values():
        squares.executor.compile(case)
        assert verified(squares, case).ok, case.name
    for word, (operation, right, wrong) in CHANGED_WORDS.items():
        text = operation.body("")
        assert text.count(right) == 1, word
        with monkeypatch.context() as broken:
            changed = text.replace(right, wrong)
            broken.setattr(type(operation), "body", lambda self, attribute, changed=changed: changed)
            _module.cache_clear()
            compiled = squares.executor.compile(cases[word])
            assert compiled.ok, (word, compiled.reason)
            assert_different(verified(squares, cases[word]), cases[word])
        _module.cache_clear()


UNFUSED: dict[str, tuple[str, dict[str, Any], tuple[tuple[str, str], ...]]] = {
    "a bias left out": ("matmul", {"epilogue": "bias"}, (("%t, %p", "%t, %zero"),)),
    "a bias of the rows": ("matmul", {"epilogue": "bias"}, (("(m, n) -> (n)", "(m, n) -> (m)"),)),
    "a relu before the bias": (
        *("matmul", {"epilogue": "bias+relu"}),
        (("addf %t, %p", "maximumf %t, %least"), ("maximumf %x, %least", "addf %x, %p")),
    ),
    "slices of which the largest counts": ("matmul_splitk", {}, (("addf %so_far, %part", "maximumf %so_far, %part"),)),
    "a chain's first product for its last": ("chain", {}, (("ins(%first, %arg2", "ins(%first, %arg1"),)),
}
"""What is broken → of which operation, how its text is changed: what only these operations have."""


@pytest.mark.parametrize("broken", UNFUSED)
def test_what_follows_a_sum_and_is_broken_is_told(
    broken: str, squares: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, options, changes = UNFUSED[broken]
    cls = OPERATIONS[name]
    operation, right = cls.make((16,) * len(cls.dims), **options), cls.body
    text = wrong = right(operation, "")
    for old, new in changes:
        assert old in wrong
        wrong = wrong.replace(old, new)
    assert wrong != text
    monkeypatch.setattr(cls, "body", lambda self, attribute: wrong)
    case = Case(Dispatch(operation, DEFAULT), TARGETS["llvm-cpu"], 1)

    assert_different(verified(squares, case), case)


@pytest.mark.parametrize(
    "operation",
    [
        of("matmul", (40, 24, 56), dynamic="mnk", epilogue="bias+relu"),
        of("conv2d", (2, 11, 9, 6, 10, 3, 2), padding=1, groups=2, epilogue="residual"),
        replace(of("conv2d", (1, 6, 6, 4, 4, 3, 3), groups=2, epilogue="bias"), layout="nchw_fchw"),
    ],
    ids=lambda operation: operation.shape_name,
)
def test_an_epilogue_is_fused_beside_other_options(operation: Operation, squares: Workspace) -> None:
    case = Case(Dispatch(operation, DEFAULT), TARGETS["llvm-cpu"], 1)

    compiled = squares.executor.compile(case)

    assert compiled.ok, compiled.reason
    assert verified(squares, case).ok


def replaced(lowering: Lowering, old: str, new: str) -> Lowering:
    changed = Lowering(lowering.prelude.replace(old, new), lowering.attribute.replace(old, new))
    assert changed != lowering
    return changed


IGNORED = {
    "a misspelt attribute": ("compilation_info = #", "compilation_inf0 = #"),
    "a rank too many": (", 0], vector_reduction = [0, ", ", 0, 0], vector_reduction = [0, 0, "),
    "a pipeline of other operations": ("DoubleTilingExpert", "ConvTileAndDecomposeExpert"),
}


@pytest.mark.parametrize("wrong", IGNORED)
def test_a_configuration_that_the_compiler_ignores_is_a_failure(
    wrong: str, squares: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = TUNINGS["double_tiling"]
    right, tuning = family.lowering, family.expand({})[0]
    monkeypatch.setattr(family, "lowering", lambda *given: replaced(right(*given), *IGNORED[wrong]))
    case = Case(Dispatch(default_case(OPERATIONS["matmul"], "f32").operation, tuning), TARGETS["llvm-cpu"], 1)

    compiled = squares.executor.compile(case)

    assert not compiled.ok
    assert (compiled.reason or "").startswith("configuration ignored: ")
    assert verify_is_not_reached(squares, case)


@pytest.mark.parametrize("in_region", [True, False])
def test_a_convolution_of_one_image_keeps_its_configuration_in_a_region_only(
    in_region: bool, squares: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before dispatches are formed, the compiler makes another op of it, and drops the attribute."""
    family = TUNINGS["conv_tile_and_decompose"]
    right, tuning = family.lowering, family.expand({})[0]
    monkeypatch.setattr(family, "lowering", lambda *given: replace_struct(right(*given), region=in_region))
    operation = OPERATIONS["conv2d"].make((1, 8, 8, 4, 4, 3, 3))

    compiled = squares.executor.compile(Case(Dispatch(operation, tuning), TARGETS["llvm-cpu"], 1))

    assert compiled.ok == in_region, compiled.reason
    assert (tuning.requested(operation) or "") in compiled.facts["applied"] or not in_region
    assert in_region or (compiled.reason or "").startswith("configuration ignored: asked for distribution = [0, 8, ")


@pytest.mark.parametrize("name", ["data_tiling", "split_k"])
def test_a_flag_that_did_nothing_is_a_failure(name: str, squares: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    family = TUNINGS[name]
    monkeypatch.setattr(family, "flags", ())
    operation = operation_of(OPERATIONS["matmul"], (24, 16, 16), "f32", "tt")
    case = Case(Dispatch(operation, family.expand({})[0]), TARGETS["llvm-cpu"], 1)

    compiled = squares.executor.compile(case)

    assert not compiled.ok
    assert (compiled.reason or "").startswith("configuration ignored: ")


def test_an_epilogue_that_became_a_dispatch_of_its_own_is_a_failure(squares: Workspace) -> None:
    """Of a result of one element (IREE 3.13)."""
    operation = OPERATIONS["matmul"].make((1, 1, 16), epilogue="bias")
    case = Case(Dispatch(operation, DEFAULT), TARGETS["llvm-cpu"], 1)

    compiled = squares.executor.compile(case)

    assert not compiled.ok
    assert (compiled.reason or "").startswith("expected one dispatch, the compiler made 2: main_dispatch_0_")
    assert verify_is_not_reached(squares, case)


def test_a_convolution_that_has_its_padding_fused_is_one_dispatch_and_no_failure(squares: Workspace) -> None:
    operation = OPERATIONS["conv2d"].make((1, 10, 10, 8, 16, 3, 3), padding=1, epilogue="bias+relu")
    flag = "--iree-dispatch-creation-enable-fuse-padding-into-linalg-consumer-ops"

    compiled = squares.executor.compile(Case(Dispatch(operation, DEFAULT), TARGETS["llvm-cpu"], 1, (flag,)))

    assert compiled.ok, compiled.reason
    assert len(compiled.facts["dispatches"]) == 1


def verify_is_not_reached(workspace: Workspace, case: Case) -> bool:
    return workspace.executor.verify(case, workspace.resolver.chain(case).device) is None


# --- tools that misbehave


def with_runtime(workspace: Workspace, folder: Path, run_module: str) -> Workspace:
    """The workspace with a runtime in which `iree-run-module` is this script."""
    folder.mkdir()
    for path in runtime_folder().iterdir():
        if path.name != "iree-run-module":
            (folder / path.name).symlink_to(path)
    write_script(folder / "iree-run-module", run_module)
    workspace.toolchain = replace(workspace.toolchain, runtime=str(folder))
    return workspace


_FINAL_OUTPUT = 'for word in "$@"; do case $word in --output=@*) out=${word#--output=@};; esac; done'

MISBEHAVING_RUNS = {
    "exit 1 with a message": ("echo 'it went wrong: error: no such device' >&2; exit 1", "no such device"),
    "exit 1 in silence": ("exit 1", "exit code 1"),
    "death by a signal": ("kill -SEGV $$", "died by SIGSEGV"),
    "no end": ("sleep 600", "took longer than"),
    "too few bytes": (f"{_FINAL_OUTPUT}; printf abc > $out", "wrote 3 B"),
    "no output": ("exit 0", "wrote 0 B"),
    "only zeros": (
        f"{_FINAL_OUTPUT}; /usr/bin/head -c 1024 /dev/zero > $out",
        "elements of the exact inputs are wrong",
    ),
    "only ones": (
        f"{_FINAL_OUTPUT}; /usr/bin/head -c 1024 /dev/zero | /usr/bin/tr '\\0' '\\377' > $out",
        "wrong; worst at",
    ),
}


@pytest.mark.parametrize("fault", MISBEHAVING_RUNS)
def test_a_module_that_does_not_run_leaves_a_reason(fault: str, squares: Workspace, tmp_path: Path) -> None:
    script, reason = MISBEHAVING_RUNS[fault]
    squares.settings = replace(squares.settings, limits=Limits(run_s=0.5))
    workspace, case = with_runtime(squares, tmp_path / "runtime", script), default_case(OPERATIONS["matmul"], "f32")
    began = time.monotonic()

    record = verified(workspace, case)

    assert not record.ok
    assert reason in (record.reason or "")
    assert record.facts["verification"] == ("different" if "wrong" in reason else "not compared")
    assert workspace.resolver.chain(case)["profile"].state == "blocked"
    assert time.monotonic() - began < 60


def test_one_module_that_does_not_run_does_not_stop_the_others(squares: Workspace, tmp_path: Path) -> None:
    """The script kills itself where an operand is f64, and else is the real tool."""
    real = runtime_folder() / "iree-run-module"
    script = f'case "$*" in *xf64*) kill -SEGV $$;; esac\nexec {real} "$@"'
    workspace = with_runtime(squares, tmp_path / "runtime", script)
    cases = [default_case(OPERATIONS["matmul"], word) for word in ("f32", "f64", "i8")]

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda case: verified(workspace, case), cases))

    assert [record.ok for record in found] == [True, False, True]


EMPTY_EXECUTABLE = """\
import sys, zipfile
with zipfile.ZipFile("module.vmfb", "w") as made:
    made.writestr("module.fb", b"program")
    made.writestr("main_dispatch_0_embedded_elf_x86_64.so", b"")
"""

MISBEHAVING_COMPILERS = {
    "no output": ("exit 0", "left no module"),
    "exit 1 with a long message": (
        "i=0; while [ $i -lt 3000 ]; do echo 'note: " + "x" * 100 + "' >&2; i=$((i+1)); done; "
        "echo 'module.mlir:1:1: error: it is refused' >&2; exit 1",
        "compile failed: it is refused",
    ),
    "death by a signal": ("kill -ABRT $$", "died by SIGABRT"),
    "no end": ("sleep 600", "took longer than"),
    "an empty executable": ("{python} {folder}/empty.py", "is empty"),
    "no archive": ("echo something else > module.vmfb", "cannot be opened"),
    "an empty file": (": > module.vmfb", "cannot be opened"),
}


@pytest.mark.parametrize("fault", MISBEHAVING_COMPILERS)
def test_a_compiler_that_misbehaves_leaves_a_reason(fault: str, squares: Workspace, tmp_path: Path) -> None:
    script, reason = MISBEHAVING_COMPILERS[fault]
    (tmp_path / "empty.py").write_text(EMPTY_EXECUTABLE)
    write_script(
        tmp_path / "iree-compile", script.replace("{python}", sys.executable).replace("{folder}", str(tmp_path))
    )
    squares.settings = replace(squares.settings, limits=Limits(compile_s=0.5 if fault == "no end" else 60.0))
    squares.toolchain = replace(squares.toolchain, compiler=str(tmp_path / "iree-compile"), digest=Digest(fault))
    case = default_case(OPERATIONS["matmul"], "f32")

    compiled = squares.executor.compile(case)

    assert not compiled.ok
    assert reason in (compiled.reason or "")
    assert len(compiled.reason or "") < 1000
    if fault == "exit 1 with a long message":  # said shortly, kept whole
        assert squares.store.path(compiled.outputs["log"]).stat().st_size > 300_000
    assert squares.resolver.chain(case)["verify"].state == "blocked"
    assert verify_is_not_reached(squares, case)
