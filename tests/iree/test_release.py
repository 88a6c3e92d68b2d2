"""Emitted MLIR and compiler flags are spelled in the way that the release of the compiler expects."""

import re
from dataclasses import replace

import pytest
from conftest import TOOLCHAIN

from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.iree.configurations import Applied, AppliedExecutable, parse
from dispatchflow.iree.cpu_features import HostCpu
from dispatchflow.iree.release import NEWEST, Release, syntax_of
from dispatchflow.iree.targets import TARGETS
from dispatchflow.operations import OPERATIONS
from dispatchflow.tunings import TUNINGS

CPU = TARGETS["llvm-cpu"]
TILED = TUNINGS["double_tiling"].parse("double_tiling_64x64_4x16x4")


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("3.13.0rc20261016", (3, 13)),
        ("3.9.0rc20251125", (3, 9)),
        ("20241104.1068", (2, 0)),
        ("unknown", NEWEST.release),
        ("", NEWEST.release),
    ],
)
def test_release_is_read_from_the_compilers_own_version(version, release):
    assert syntax_of(version).release == release


def test_release_is_called_as_its_users_call_it():
    assert str(syntax_of("3.12.0rc20260917")) == "IREE 3.12"
    assert str(syntax_of("20241104.1068")) == "IREE before 3.0"


@pytest.mark.parametrize(
    ("release", "pipeline"),
    [((3, 11), "= CPUDoubleTilingExpert>"), ((3, 12), "= #iree_cpu.pipeline<DoubleTilingExpert>>")],
)
def test_pipeline_is_spelt_as_the_release_spells_it(release, pipeline, case_of):
    text = case_of(tuning=TILED.name).dispatch.module(Release(release))
    assert f"translation_info<pipeline {pipeline}" in text


@pytest.mark.parametrize(("release", "alone"), [((3, 9), True), ((3, 10), True), ((3, 11), False)])
def test_convolution_of_two_images_is_put_into_a_dispatch_where_it_would_lose_its_configuration(release, alone):
    tuning, operation = TUNINGS["conv_tile_and_decompose"].expand({})[0], OPERATIONS["conv2d"]
    assert tuning.lowering(operation.make((2, 8, 8, 4, 4, 3, 3)), Release(release)).region == alone
    assert tuning.lowering(operation.make((1, 8, 8, 4, 4, 3, 3)), Release(release)).region


@pytest.mark.parametrize("spelling", ["#iree_cpu.pipeline<DoubleTilingExpert>", "CPUDoubleTilingExpert"])
def test_applied_pipeline_has_one_name_in_all_releases(spelling):
    dump = f"hal.executable.export public @x\nfunc attributes {{i = #iree_codegen.translation_info<pipeline = {spelling}>}}"
    assert parse(dump).executables[0].pipeline == "DoubleTilingExpert"


def test_release_without_the_configuration_skips_it_with_a_reason():
    assert TILED.inexpressible(Release((3, 6)), CPU) == "IREE 3.6 cannot be given CPU tiles by name"
    assert TILED.inexpressible(Release((3, 7)), CPU) is None
    assert all(tuning.inexpressible(Release((2, 0)), CPU) is None for tuning in TUNINGS["default"].expand({}))


def test_an_unchanged_operation_has_the_same_module_text_for_all_releases(case_of):
    dispatch = case_of(tuning="default").dispatch
    assert dispatch.module(Release((3, 0))) == dispatch.module(NEWEST)


@pytest.mark.parametrize(("name", "first", "before"), [("matmul", (3, 1), (3, 0)), ("batch_matmul", (3, 3), (3, 2))])
def test_column_major_operand_is_a_generic_ops_where_the_named_op_takes_no_maps(name, first, before, golden):
    def text(layout, release):
        operation = OPERATIONS[name].make((2, 3, 4, 5)[-len(OPERATIONS[name].dims) :], "f16_f32", layout)
        return Dispatch(operation, TUNINGS["default"].expand({})[0]).module(Release(release))

    golden(f"{name}_nt_before_{first[0]}.{first[1]}.mlir", old := text("nt", before))
    assert text("nt", first) == text("nt", NEWEST.release)
    maps = re.search(r"indexing_maps = \[.*?\]", text("nt", first))[0]
    assert f"linalg.generic {{{maps}" in old
    assert text("tt", before) == text("tt", first)


@pytest.mark.parametrize(
    ("version", "target", "demanded"),
    [
        ("20241104.1068", "llvm-cpu", None),
        ("3.7.0rc20250828", "llvm-cpu", None),
        ("3.7.0rc20250828", "vmvx", None),
        ("3.7.0rc20250828", "cuda-sm_80", "default; 1 dispatches"),
        ("3.8.0rc20251006", "llvm-cpu", "default; 1 dispatches"),
    ],
)
def test_dispatches_are_not_counted_where_the_release_packs_unasked(version, target, demanded, case_of, resolver_of):
    case, resolver = case_of(epilogue="bias", target=target), resolver_of(toolchain=replace(TOOLCHAIN, version=version))
    assert resolver.chain(case)["compile"].action.ingredients["requested"] == demanded
    four = Applied(tuple(AppliedExecutable(name, "", ()) for name in ("pack", "pack", "mmt4d", "unpack")))
    assert (case.dispatch.missed(four, resolver.packs_operands(case)) is None) == (demanded is None)


@pytest.mark.parametrize(
    ("release", "why"), [((3, 8), "IREE 3.8 has no --iree-global-opt-data-tiling"), ((3, 9), None)]
)
def test_older_releases_skip_the_data_tiling_paths_that_they_do_not_have(release, why):
    for name, expected in (("data_tiling_global_opt_ukernels_none", why), ("data_tiling", None)):
        assert TUNINGS["data_tiling"].parse(name).inexpressible(Release(release), CPU) == expected


@pytest.mark.parametrize(
    ("release", "flag"), [((3, 10), "--iree-hip-target=gfx942"), ((3, 11), "--iree-rocm-target=gfx942")]
)
def test_amds_flags_are_spelt_as_the_release_spells_them(release, flag):
    flags = TARGETS["rocm-gfx942"].resolved_flags(HostCpu("znver4", "+avx"), Release(release))
    assert flag in flags
    assert TARGETS["rocm-gfx942"].resolved_flags(HostCpu("znver4", "+avx"), NEWEST) == TARGETS["rocm-gfx942"].flags


@pytest.mark.parametrize(
    ("name", "release", "why"),
    [
        ("cuda-sm_89", (3, 11), "IREE 3.11 does not know cuda-sm_89; 3.12 is the first that does"),
        ("cuda-sm_89", (3, 12), None),
        ("cuda-sm_120", (3, 12), "IREE 3.12 does not know cuda-sm_120; 3.13 is the first that does"),
        ("rocm-gfx1201", (3, 2), "IREE 3.2 does not know rocm-gfx1201; 3.3 is the first that does"),
        ("llvm-cpu", (2, 0), None),
    ],
)
def test_target_is_not_of_every_release(name, release, why):
    assert TARGETS[name].inexpressible(Release(release)) == why
