import re
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.cases.module import File, Module
from dispatchflow.cases.rotating_inputs import CACHES
from dispatchflow.iree.targets import TARGETS
from dispatchflow.keys import digest_of
from dispatchflow.libraries.providers import IREE, LIBRARIES
from dispatchflow.mlir.types import ElementType, Signature
from dispatchflow.operations.matmul import Matmul
from dispatchflow.tunings import TUNINGS
from dispatchflow.tunings.base_vectorize import BaseVectorize
from dispatchflow.tunings.conv_tile_and_decompose import ConvTileAndDecompose
from dispatchflow.tunings.data_tiling import DataTiling
from dispatchflow.tunings.double_tiling import DoubleTiling
from dispatchflow.tunings.tile_and_fuse import TileAndFuse
from dispatchflow.tunings.vector_distribute import VectorDistribute

ELEMENTS = st.sampled_from(ElementType)
TILE = st.integers(1, 12) | st.integers(1, 2**62)
PAIR = st.tuples(TILE, TILE)
DOUBLE_TILINGS = st.builds(DoubleTiling, PAIR, PAIR, TILE, st.none() | PAIR | st.tuples(TILE, TILE, TILE))
FOUR = st.tuples(TILE, TILE, TILE, TILE)
CONVOLUTIONS = st.builds(ConvTileAndDecompose, FOUR, FOUR, st.tuples(TILE, TILE, TILE))
DATA_TILINGS = st.builds(
    DataTiling, st.sampled_from(["dispatch_creation", "global_opt"]), st.sampled_from(["default", "none", "all"])
)
INTRINSICS = st.sampled_from([mma for target in TARGETS.values() if target.gpu for mma in target.gpu.mma])
MMA_TILINGS = st.sampled_from([TileAndFuse, VectorDistribute]).flatmap(
    lambda family: st.builds(
        family, INTRINSICS, PAIR, TILE, PAIR, st.sampled_from([(0, 1), (0,), (1,), ()]), st.none() | TILE
    )
)
SPIRV_TILINGS = st.builds(BaseVectorize, PAIR, PAIR, TILE)
PARAMETRISED = DOUBLE_TILINGS | CONVOLUTIONS | DATA_TILINGS | MMA_TILINGS | SPIRV_TILINGS
SHIPPED = [tuning for family in TUNINGS.values() for tuning in family.expand({})]
MATMULS = st.builds(
    Matmul,
    st.tuples(*[st.integers(1, 12) | st.integers(1, 2**31 - 1)] * 3),
    st.builds(Signature, st.tuples(ELEMENTS, ELEMENTS), ELEMENTS, ELEMENTS),
    st.sampled_from(Matmul.layouts),
    st.tuples(*[st.sampled_from(option.values) for option in Matmul.options.values()]),
)
REST = (st.sampled_from(list(TARGETS.values())), st.none() | st.integers(1, 4096))
CACHE = st.sampled_from(CACHES)
DEFAULT = st.just(TUNINGS["default"].expand({})[0])
CASES = st.builds(
    Case,
    st.builds(Dispatch, MATMULS, st.sampled_from(SHIPPED) | PARAMETRISED),
    *REST,
    st.just(()),
    st.just(IREE),
    CACHE,
) | st.builds(Case, st.builds(Dispatch, MATMULS, DEFAULT), *REST, st.just(()), st.sampled_from(list(LIBRARIES)), CACHE)


@given(CASES, CASES)
def test_cases_with_equal_names_are_equal(one, other):
    assert (one.name == other.name) == (one == other)


@given(CASES, st.data())
def test_each_field_of_a_case_shows_in_its_name(case, data):
    # The compared cases differ in one field; random pairs would differ in all fields.
    operation, tuning = case.operation, case.tuning
    other = data.draw(CASES)
    field = data.draw(
        st.sampled_from(["sizes", "signature", "layout", "chosen", "tuning", "target", "threads", "cache"])
    )
    assume(field != "tuning" or case.provider == other.provider == IREE)
    if field in ("target", "threads", "cache"):
        changed = replace(case, **{field: getattr(other, field)})
    elif field == "tuning":
        changed = replace(case, dispatch=Dispatch(operation, other.tuning))
    else:
        changed = replace(
            case, dispatch=Dispatch(replace(operation, **{field: getattr(other.operation, field)}), tuning)
        )
    assume(changed != case)
    assert changed.name != case.name


def test_names_of_all_combinations_are_distinct():
    # The words of some types end in each other, such as f16 and bf16.
    shapes = [(1, 11, 1), (11, 1, 1), (1, 1, 11), (111, 1, 1)]
    alike = [ElementType.F16, ElementType.BF16, ElementType.I8]
    three = [*product(ElementType, repeat=3)]
    f32, alike = ElementType.F32, (ElementType.F16, ElementType.BF16, ElementType.I8)
    signatures = {
        *(Signature((a, b), c, f32) for a, b, c in three),
        *(Signature((f32, a), b, c) for a, b, c in three),
    }
    few = [Signature((a, b), c, d) for a, b, c, d in product(alike, repeat=4)]
    tuning, target = TUNINGS["default"].expand({})[0], TARGETS["llvm-cpu"]
    cases = [
        Case(Dispatch(Matmul(shape, signature, layout, Matmul.make(shape).chosen), tuning), target, threads)
        for shape, signature, layout, threads in {
            *product(shapes[:1], signatures, Matmul.layouts[:1], (None,)),
            *product(shapes, few, Matmul.layouts, (None, 1)),
        }
    ]
    assert len({case.name for case in cases}) == len(set(cases)) == len(cases)


@given(CASES)
def test_name_fits_a_file_name_and_a_command_line(case):
    assert len(case.name.encode()) <= 200
    assert re.fullmatch(r"[A-Za-z0-9_@.+-]+", case.name)


def test_long_names_that_differ_only_at_their_ends_stay_distinct(case_of):
    tiles = (10**60, 10**60)
    dispatch = Dispatch(case_of().operation, DoubleTiling(tiles, tiles, 1))
    names = {Case(dispatch, TARGETS["llvm-cpu"], threads).name for threads in (None, *range(1, 50))}
    assert len(names) == 50
    assert {len(name) for name in names} == {200}


def test_a_long_name_keeps_its_target_and_threads(case_of):
    flags = tuple(f"--iree-dispatch-creation-enable-something-long-{i}" for i in range(5))
    names = [replace(case_of(threads=1), flags=flags, target=TARGETS[name]).name for name in ("llvm-cpu", "vulkan")]
    digests = {name.split("@")[0].rpartition("_")[2] for name in names}
    assert [name.split("@")[1] for name in names] == ["llvm-cpu-1t", "vulkan-1t"]
    assert len(digests) == 1
    assert replace(case_of(threads=1), flags=flags[:-1]).name.split("@")[0].rpartition("_")[2] not in digests


@pytest.mark.parametrize("title", ["é" * 150, "e" + "é" * 150])
def test_a_long_name_of_any_letters_fits_in_bytes(title):
    module = Module(File("f", digest_of(b"")), title, "main")
    name = Case(Dispatch(module, TUNINGS["default"].expand({})[0]), TARGETS["llvm-cpu"]).name
    assert 198 < len(name.encode()) <= 200
    assert name.endswith("@llvm-cpu")


@pytest.mark.parametrize("tuning", SHIPPED, ids=lambda tuning: tuning.name)
def test_shipped_tuning_is_found_by_its_name(tuning):
    assert type(tuning).parse(tuning.name) == tuning


@given(PARAMETRISED)
def test_a_tuning_s_name_is_parsed_to_that_tuning_and_only_by_its_family(tuning):
    parsed = {name: family.parse(tuning.name) for name, family in TUNINGS.items()}
    assert {name: found for name, found in parsed.items() if found} == {tuning.family: tuning}


@pytest.mark.parametrize(
    "word",
    [
        *("double_tiling", "double_tiling_64x64_4x16", "double_tiling_064x64_4x16x4", "double_tiling_0x64_4x16x4"),
        *("double_tiling_64x64_4x16x0", "double_tiling_64x64_4x16x4_cache_0x64", "double_tiling_64x64_4x16x4x"),
    ],
)
def test_a_word_that_is_not_a_tunings_name_is_not_parsed(word):
    assert DoubleTiling.parse(word) is None


def test_name_shows_only_what_is_not_the_default(case_of):
    assert case_of().name == "matmul_4x5x6_f32t_f32t_f32t_default@llvm-cpu"
    assert case_of(threads=1, layout="nt", dtype="f16_f32_f16").name == (
        "matmul_4x5x6_f16n_f16t_f16t_acc_f32_default@llvm-cpu-1t"
    )
