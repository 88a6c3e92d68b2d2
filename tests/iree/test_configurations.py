"""The configurations that the compiler applied, such as tile sizes, are read from its dumps.

The dumps in data/configurations are from IREE 3.13.0 and from 20241104, a release before 3.0. They contain only
the fields that dispatchflow reads."""

from dataclasses import replace
from pathlib import Path

import pytest

from dispatchflow.iree import configurations
from dispatchflow.iree.configurations import Applied, AppliedExecutable
from dispatchflow.tunings import TUNINGS

DUMPS = Path(__file__).parent.parent / "data" / "configurations"
ASKED = "distribution = [64, 64, 0], vector_common_parallel = [8, 32, 0], vector_reduction = [0, 0, 1]"


def read(name: str) -> Applied:
    return configurations.parse((DUMPS / f"{name}.mlir").read_text())


def test_default_is_what_the_compiler_chose():
    tiles = "vector_common_parallel = [8, 8"
    assert read("default").executables == (
        AppliedExecutable(
            "main_dispatch_0_matmul_128x256x64_f32",
            "DoubleTilingExpert",
            (
                ("fill", f"cache_parallel = [32, 64], {tiles}]"),
                (
                    "matmul",
                    f"cache_parallel = [32, 64, 0], distribution = [32, 64, 0], {tiles}, 0], vector_reduction = [0, 0, 8]",
                ),
            ),
            "{enable_loop_peeling}",
        ),
    )


ATTENTION = """hal.executable.export public @main_dispatch_0_attention ordinal(0)
  %12:3 = iree_linalg_ext.online_attention <indexing_maps = [affine_map<(d0, d1) -> (d0)>], decomposition_config = {\
pv_attrs = {attention_pv_matmul, lowering_config = #iree_cpu.lowering_config<vector_common_parallel = [1, 16]>}, \
qk_attrs = {attention_qk_matmul, lowering_config = #iree_cpu.lowering_config<vector_common_parallel = [1, 8]>}}> \
{lowering_config = #iree_cpu.lowering_config<distribution = [1, 32]>} ins(%4 : tensor<4x64xf32>) {
"""


def test_configuration_of_an_attention_is_its_own_not_that_of_the_products_it_becomes():
    (found,) = configurations.parse(ATTENTION).executables
    assert found.configurations == (("online_attention", "distribution = [1, 32]"),)
    wanted = ("vector_common_parallel = [1, 8]", "vector_common_parallel = [1, 16]", "distribution = [1, 32]")
    assert configurations.unapplied(wanted, Applied((found,))) is None
    assert configurations.unapplied(("vector_common_parallel = [1, 4]",), Applied((found,))) is not None


def test_a_name_in_quotes_is_whole_and_without_escapes():
    names = ('"a b_dispatch_0_elementwise"', "c", r'"\C3\A9\22_dispatch_0"')
    dump = "\n".join(f"hal.executable.export public @{name} ordinal(0)" for name in names)
    found = [executable.name for executable in configurations.parse(dump).executables]
    assert found == ["a b_dispatch_0_elementwise", "c", 'é"_dispatch_0']


def test_configuration_behind_indexing_maps_is_read():
    (executable,) = read("default_i8_nn").executables
    assert [op for op, _ in executable.configurations] == ["fill", "matmul"]


def test_data_tiling_shows_its_executables_in_order():
    assert [
        (e.name.split("_x")[0], e.pipeline, [op for op, _ in e.configurations]) for e in read("data_tiling").executables
    ] == [
        ("_encoding_0_encode_128x64xf32_to_128x64xf32", "DataTiling", ["pack"]),
        ("_encoding_1_encode_64x256xf32_to_64x256xf32", "DataTiling", ["pack"]),
        ("main_dispatch_0_matmul_128x256x64_f32", "Mmt4dTilingExpert", ["fill", "mmt4d", "unpack"]),
    ]


def test_configuration_of_an_op_with_a_region_is_read():
    last = read("data_tiling_narrowed").executables[-1]
    assert dict(last.configurations)["generic"] == "vector_common_parallel = [1, 1, 8, 8]"
    assert [op for op, _ in last.configurations] == ["fill", "mmt4d", "generic", "unpack"]


def test_vmvx_has_a_pipeline_without_parameters():
    assert read("vmvx").text == "vmvx_pipeline matmul<distribution = [64, 64, 0]>"


def test_an_encoding_that_copies_packed_nothing(case_of):
    # llvm-cpu writes such an encoding for types that it has no tiles for.
    case, copy = (
        case_of(tuning="data_tiling"),
        AppliedExecutable("_encoding_0_encode_64x64xf64_to_64x64xf64", "Default", ()),
    )
    assert case.dispatch.missed(Applied((copy, *read("default").executables))).startswith("configuration ignored: ")
    assert case.dispatch.missed(Applied((copy, *read("data_tiling").executables[-1:]))) is None


def test_tunings_of_flags_only_are_checked_for_any_program():
    # A user's module has no operation, so these tunings must not look at the operation.
    for tuning in (tuning for family in TUNINGS.values() for tuning in family.expand({}) if not tuning.annotates):
        asked = tuning.requested(None)
        assert (tuning.ignored(None, read("default")) is None) == (asked is None), tuning.name


def test_text_joins_executables_in_one_line():
    text = read("data_tiling").text
    assert text.count(" | ") == 2
    assert "\n" not in text
    assert text.startswith("DataTiling pack<distribution = [2, 64]")


def test_dump_without_an_executable_has_applied_nothing():
    assert configurations.parse("") == configurations.parse("module {\n}\n") == Applied(())


@pytest.mark.parametrize(
    ("tuning", "dump"),
    [
        ("default", "default"),
        ("default", "data_tiling"),
        ("data_tiling", "data_tiling"),
        ("data_tiling", "data_tiling_narrowed"),
        ("data_tiling", "data_tiling_vmvx"),
        ("data_tiling", "data_tiling_of_2024"),
        ("double_tiling_64x64_8x32x1", "double_tiling"),
    ],
)
def test_an_applied_configuration_is_found(tuning, dump, case_of):
    case = case_of(tuning=tuning, shape="512x512x512")
    assert case.tuning.ignored(case.operation, read(dump)) is None


@pytest.mark.parametrize(
    ("tuning", "dump", "says"),
    [
        ("data_tiling", "default", "packed nothing"),
        ("data_tiling", "double_tiling", "packed nothing"),
        ("data_tiling", "data_tiling_of_1x1x1", "packed nothing"),
        ("data_tiling", "vmvx", "packed nothing"),
        ("double_tiling_64x64_8x32x1", "default", f"asked for {ASKED}; applied DoubleTilingExpert"),
        ("double_tiling_64x64_8x32x1", "vmvx", "applied vmvx_pipeline"),
        ("double_tiling_64x64_8x32x1", "data_tiling", "applied DataTiling"),
        ("double_tiling_64x64_8x32x1", "wrong_pipeline", "applied under pipeline ConvTileAndDecomposeExpert"),
        ("double_tiling_64x64_8x32x1", "wrong_rank", "distribution = [64, 64, 0, 0]"),
        ("double_tiling_64x64_8x32x1", "convolution", "ConvTileAndDecomposeExpert"),
        ("double_tiling_64x64_8x32x2", "double_tiling", "vector_reduction = [0, 0, 2]; applied"),
        ("double_tiling_64x64_8x32x1_cache_64x64", "double_tiling", "asked for cache_parallel = [64, 64, 0], "),
        ("double_tiling_64x64_8x32x1", "misspelt_attribute", "vector_common_parallel = [8, 8, 0]"),
    ],
)
def test_an_ignored_configuration_is_reported(tuning, dump, says, case_of):
    case = case_of(tuning=tuning, shape="512x512x512")
    reason = case.tuning.ignored(case.operation, read(dump))
    assert reason is not None
    assert says in reason


def made(*names: str) -> Applied:
    return Applied(tuple(AppliedExecutable(name, "none", ()) for name in names))


SPLIT = ("main_dispatch_0_matmul_like_4x64x64x128_f32", "main_dispatch_1_reduction_4096x4_f32")


def test_slices_are_read_from_the_names_of_what_was_made(case_of):
    case = case_of(tuning="split_k_4", shape="64x64x512")
    assert case.dispatch.missed(made(*SPLIT)) is None
    halves = (SPLIT[0].replace("4x64", "2x4"), SPLIT[1])
    for wrong in (
        SPLIT[:1],
        ("main_dispatch_0_matmul_64x64x512_f32",),
        (SPLIT[0].replace("4x64", "2x64"), SPLIT[1]),
        halves,
    ):
        assert "asked for 4 slices of k; the compiler made main_dispatch_0" in case.dispatch.missed(made(*wrong))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({}, None),
        ({"epilogue": "bias+relu"}, 1),
        ({"epilogue": "bias", "tuning": "double_tiling_64x64_4x16x4"}, 1),
        ({"epilogue": "bias", "tuning": "data_tiling"}, None),
        ({"epilogue": "bias", "tuning": "split_k_2"}, None),
        ({"operation": "matmul_splitk", "slices": 3}, 2),
    ],
)
def test_an_operation_says_how_many_dispatches_it_becomes_and_a_tuning_may_add_some(words, expected, case_of):
    dispatch = case_of(**words).dispatch
    assert (dispatch._counted(False).dispatches if dispatch._counted(False) else None) == expected
    assert (dispatch.demanded() == dispatch.requested) == (expected is None)


@pytest.mark.parametrize("padding", [0, 1])
def test_only_the_paddings_copy_may_be_a_dispatch_before_a_fused_convolution(padding, case_of):
    shape, copy = {"operation": "conv2d", "shape": "1x8x8x3x4x3x3"}, "main_dispatch_0_slow_memcpy"
    dispatch = case_of(**shape, padding=padding, epilogue="bias").dispatch
    assert dispatch.demanded() == f"default; 1 dispatches{' beside a copy' if padding else ''}"
    assert dispatch.missed(made()) == "expected one dispatch, the compiler made 0: none"
    assert dispatch.missed(made("a")) is None
    assert dispatch.missed(made("a", "b")) == "expected one dispatch, the compiler made 2: a, b"
    assert (dispatch.missed(made(copy, "b")) is None) == (padding == 1)
    assert (dispatch.missed(made(copy)) is None) == (padding == 0)
    beside = " beside the padding's copy" if padding else ""
    assert dispatch.missed(made(copy, "b", "c")) == (
        f"expected one dispatch{beside}, the compiler made 3: {copy}, b, c"
    )
    assert case_of(**shape, padding=padding).dispatch.demanded() is None


def test_an_unexpected_number_of_dispatches_is_reported(case_of):
    dispatch = case_of(epilogue="bias").dispatch
    assert dispatch.missed(made("a")) is None
    assert dispatch.missed(made("a", "b")) == "expected one dispatch, the compiler made 2: a, b"
    assert dispatch.missed(made()) == "expected one dispatch, the compiler made 0: none"


@pytest.mark.parametrize("tuning", ["data_tiling", "double_tiling_64x64_8x32x1"])
def test_an_empty_dump_applied_no_requested_tuning(tuning, case_of):
    case = case_of(tuning=tuning)
    assert case.tuning.ignored(case.operation, Applied(())) is not None


def test_only_the_default_asks_for_nothing(case_of):
    tunings = [tuning for family in TUNINGS.values() for tuning in family.expand({})]
    assert [t.name for t in tunings if t.requested(case_of().operation) is None] == ["default"]


ASKING = """\
#config = #iree_gpu.lowering_config<{workgroup = [64, 64, 0], reduction = [0, 0, 32]}>
#config1 = #iree_cpu.lowering_config<vector_common_parallel = [8, 32, 0], distribution = [64, 64, 0]>
#config2 = #iree_codegen.lowering_config<tile_sizes = [[1, 2]]>
#map = affine_map<(d0) -> (d0)>
#translation = #iree_codegen.translation_info<pipeline = LLVMGPUTileAndFuse workgroup_size = [64, 2, 1] subgroup_size = 32>
#translation1 = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>>
#compilation = #iree_codegen.compilation_info<lowering_config = #config1, translation_info = #translation1>
module {
  func.func @a(%arg0: tensor<4xf32>) attributes {translation_info = #translation} {
    %0 = linalg.matmul {lowering_config = #config} ins(%arg0 : tensor<4xf32>)
    %1 = linalg.matmul {lowering_config = #config} ins(%0 : tensor<4xf32>)
  }
  func.func @"b c"(%arg0: tensor<4xf32>) attributes {translation_info = #translation} {
    %0:2 = linalg.matmul {compilation_info = #compilation} ins(%arg0 : tensor<4xf32>)
    %1:2 = linalg.matmul {compilation_info = #compilation} ins(%arg0 : tensor<8xf32>)
      %2:2 = linalg.matmul {compilation_info = #compilation} ins(%1#1 : tensor<8xf32>)
    %3 = linalg.matmul {compilation_info = #compilation} ins(%2#1 : tensor<?xf32>)
    %4 = linalg.matmul {lowering_config = #config2} ins(%2#1 : tensor<?xf32>)
    %5 = linalg.matmul {lowering_config = #config2} ins(%2#1 : tensor<?x?xf32>)
  }
}
"""
GPU = AppliedExecutable(
    "a",
    "TileAndFuse",
    (("matmul", "reduction = [0, 0, 32], workgroup = [64, 64, 0]"),),
    "workgroup_size = [64, 2, 1] subgroup_size = 32",
)
CPU = AppliedExecutable(
    "b", "DoubleTilingExpert", (("matmul", "distribution = [64, 64, 0], vector_common_parallel = [8, 32, 0]"),)
)


def test_configurations_requested_in_a_module_are_read_in_the_spelling_of_the_dump():
    both = f"DoubleTilingExpert and {CPU.configurations[0][1]}"
    assert configurations.requested_by(ASKING) == (
        "TileAndFuse workgroup_size = [64, 2, 1] subgroup_size = 32",
        "reduction = [0, 0, 32], workgroup = [64, 64, 0]",
        both,
        both,
        "tile_sizes = [[1, 2]]",
    )


def test_configurations_requested_in_a_module_are_applied_as_often_unless_dispatches_merged():
    wanted = configurations.requested_by(ASKING)[:-1]
    assert configurations.unapplied(wanted, Applied((GPU, CPU, CPU))) is None
    assert configurations.unapplied(wanted, Applied((CPU, CPU))) == wanted[0]
    assert configurations.unapplied(wanted, Applied((GPU,))) == wanted[2]
    assert configurations.unapplied((), Applied(())) is None
    # If the compiler removed operations, fewer of them get a configuration than requested it. This is an error only if
    # a dispatch has none of the requested configurations.
    chosen = replace(CPU, translation="{enable_loop_peeling}")
    assert configurations.unapplied(wanted, Applied((GPU, CPU))) is None
    assert configurations.unapplied(wanted, Applied((GPU, CPU, CPU, chosen))) is None
    once = f"{wanted[2]} for 2 operations, of which 1 got it"
    assert configurations.unapplied(wanted, Applied((GPU, CPU, chosen))) == once
    # A dispatch with the requested pipeline but without the requested tiles does not count.
    elsewhere = replace(CPU, configurations=())
    assert configurations.unapplied(wanted, Applied((GPU, chosen, elsewhere))) == wanted[2]
