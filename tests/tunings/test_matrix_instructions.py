"""Tiles for matrix instructions of GPUs are applied as requested.

If that is impossible, the case is skipped with a reason, or it is a known failure."""

import re
import subprocess

import pytest
from support.skips import unsupported_reason

from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.errors import SpecError
from dispatchflow.iree.targets import TARGETS
from dispatchflow.operations import OPERATIONS
from dispatchflow.planning import parser, plan
from dispatchflow.project.workspace import Workspace
from dispatchflow.tunings import TUNINGS

NV = "NV_MMA_SYNC_F32_16x8x16_F16"
FAMILIES = ("tile_and_fuse", "vector_distribute")
AMD = {"mma": "MFMA_F32_16x16x16_F16", "target": "rocm-gfx942"}


def reason(
    tile="64x64x32_2x2",
    mma=NV,
    target="cuda-sm_80",
    shape=(256, 256, 256),
    dtype="f16_f32",
    family="tile_and_fuse",
    **options,
):
    tuning = TUNINGS[family].parse(f"{family}_{tile}_{mma}")
    return unsupported_reason(OPERATIONS["matmul"].make(shape, dtype, **options), tuning, TARGETS[target])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tile_that_fits_is_not_skipped(family):
    assert reason(family=family) is None
    assert (
        reason(mma="MFMA_F32_16x16x16_F16", target="rocm-gfx942", tile="64x64x32_2x2_stages_2", family=family) is None
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"target": "llvm-cpu"}, "tile_and_fuse is a configuration of cuda and rocm, not of llvm-cpu"),
        ({"target": "vulkan"}, "not of vulkan-spirv"),
        ({"dtype": "f16"}, f"{NV} multiplies F16 into F32, not f16,f16->f16; write mma = NV_MMA_SYNC_F16_16x8x16_F16"),
        ({"dtype": "f32"}, "not f32,f32->f32; cuda-sm_80 has none for f32,f32->f32"),
        ({"tile": "48x64x32_2x2"}, "a tile of 48x64x32 is not a multiple of 2x2 subgroups' instructions, 32x16x16"),
        ({"tile": "64x64x24_2x2"}, "not a multiple of 2x2 subgroups' instructions"),
        ({"shape": (1, 256, 256)}, None),
        ({"shape": (250, 256, 256), "target": "rocm-gfx942"}, f"rocm-gfx942 has no {NV}"),
        ({"accumulate": "yes", "shape": (1, 256, 256)}, None),
        ({"dtype": "f8E5M2", "target": "cuda-sm_89", "mma": "NV_MMA_SYNC_F32_16x8x32_F8E5M2"}, None),
        ({"dtype": "f8E5M2", "target": "rocm-gfx1201", "mma": "WMMAR4_F32_16x16x16_F8E5M2"}, None),
        ({"target": "rocm-gfx942"}, f"has no {NV}; write mma = MFMA_F32_16x16x16_F16 or MFMA_F32_32x32x8_F16"),
        ({"tile": "256x256x16_16x4"}, "needs 2048 threads in a workgroup; cuda-sm_80 has 1024"),
        ({"tile": "256x256x128_4x2"}, None),
        ({"tile": "256x256x128_4x2", "target": "cuda-sm_86"}, "needs 131072 B of shared memory; cuda-sm_86 has 101376"),
        ({"tile": "256x256x128_4x2_promote_0", "target": "cuda-sm_86"}, None),
        ({"tile": "128x128x128_2x2", **AMD}, None),
        ({"tile": "256x256x256_4x2"}, "needs 262144 B of shared memory; cuda-sm_80 has 166912"),
        ({"shape": (250, 250, 250)}, None),
        ({"dynamic": "mnk"}, None),
        ({"tile": "64x64x32_2x2_stages_4"}, None),
        ({"mma": "NV_WMMA_F32_16x16x16_F16"}, None),
    ],
)
def test_tiles_that_an_architecture_does_not_support_are_skipped_with_the_reason(words, says):
    found = reason(**words)
    assert found == says if says is None else says in found


def test_intrinsic_alone_stands_for_the_former_profiler_s_tiles_of_its_width():
    def shapes(**parameters):
        return [(t.workgroup, t.reduction, t.subgroups) for t in TUNINGS["tile_and_fuse"].expand(parameters)]

    assert shapes() == shapes(mma=NV)
    assert len(shapes()) == 7
    assert shapes()[0] == ((256, 128), 32, (4, 2))
    assert len(shapes(mma="MFMA_F32_16x16x4_F32")) == 8
    assert {k for _, k, _ in shapes(mma="MFMA_F32_16x16x4_F32")} == {16, 32}


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"mma": "HMMA"}, "expected an intrinsic's name"),
        ({"mma": NV, "workgroup": [64, 64]}, "parameter 'reduction' is missing"),
        ({"mma": NV, "workgroup": [64], "reduction": 32, "subgroups": [2, 2]}, "workgroup = [64]; expected [m, n]"),
        ({"mma": NV, "workgroup": [64, 64], "reduction": 32, "subgroups": [2, 2], "promote": [2]}, "promote = [2]"),
        ({"mma": NV, "workgroup": [64, 64], "reduction": 32, "subgroups": [2, 2], "stages": 0}, "stages = 0"),
        ({"mma": NV, "tile": 3}, "unknown parameter 'tile'"),
    ],
)
def test_impossible_tile_parameters_are_an_error(parameters, says):
    table = {"operation": "matmul", "shape": "64x64x64", "tuning": {"family": "vector_distribute", **parameters}}
    with pytest.raises(SpecError) as caught:
        plan.expand([parser.sweep(table, "here")])
    assert says in str(caught.value.facts["found"])


QUICK = [
    ("cuda-sm_80", "matmul", (128, 128, 64), "f16_f32", "64x64x32_2x2", NV),
    ("rocm-gfx942", "batch_matmul", (2, 64, 64, 96), "f16_f32", "64x64x32_2x2_stages_2", "MFMA_F32_16x16x16_F16"),
]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return Workspace(tmp_path_factory.mktemp("gpu"), {})


def compiled(workspace, target, operation, tuning):
    case = Case(Dispatch(operation, tuning), TARGETS[target])
    assert unsupported_reason(operation, tuning, case.target) is None
    return workspace.executor.compile(case)


def fails_as(workspace, case):
    """Compile a case; return the reason of its known failure, or None if the compile succeeds.

    A failure that is not known raises `AssertionError`."""
    record = workspace.executor.compile(case)
    known = workspace.resolver.chain(case).known
    assert record.ok or known, record.reason
    return known.reason if known else None


@pytest.mark.iree
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("target", "name", "shape", "dtype", "tile", "mma"), QUICK, ids=[quick[0] for quick in QUICK])
def test_the_requested_configuration_is_the_applied_one(family, target, name, shape, dtype, tile, mma, workspace):
    tuning, operation = TUNINGS[family].parse(f"{family}_{tile}_{mma}"), OPERATIONS[name].make(shape, dtype)
    record = compiled(workspace, target, operation, tuning)
    assert record.ok, record.reason
    configuration = tuning.requested(operation).split("mma_kind")[1]
    assert configuration in record.facts["applied"]


@pytest.mark.iree
def test_an_instruction_that_is_listed_and_not_compiled_is_a_known_failure(workspace):
    tuning = TUNINGS["tile_and_fuse"].parse("tile_and_fuse_64x64x32_2x2_NV_WMMA_F32_16x16x16_F16")
    operation = OPERATIONS["matmul"].make((128, 128, 64), "f16_f32")
    assert "NV_WMMA" in fails_as(workspace, Case(Dispatch(operation, tuning), TARGETS["cuda-sm_80"]))


@pytest.mark.iree
def test_more_stages_than_have_an_effect_are_compiled_to_the_same_code(workspace):
    # IREE generates the same code for four stages as for three, but other code for two.
    operation, digests = OPERATIONS["matmul"].make((64, 64, 96), "f16_f32"), []
    for n in (2, 3, 4):
        tuning = TUNINGS["tile_and_fuse"].parse(f"tile_and_fuse_64x64x32_2x2_stages_{n}_{AMD['mma']}")
        record = compiled(workspace, AMD["target"], operation, tuning)
        digests.append(record.facts["code_digest"])
    assert digests[0] != digests[1] == digests[2]


COMPILED = {
    "100x100x64_vector_distribute_64x64x32_2x2",
    "1x128x20_vector_distribute_64x64x32_2x2",
    "40x24x20_vector_distribute_64x64x32_2x2",
    "100x32x64_vector_distribute_64x64x32_2x2",
    "128x100x16_vector_distribute_64x64x32_2x2",
    "128x56x64_vector_distribute_64x64x32_2x2",
    "64x60x24_vector_distribute_64x32x64_2x2",
    "40x24x50_vector_distribute_64x64x32_2x2_promote_none",
    "100x128x60_vector_distribute_64x128x64_2x2_promote_1",
    "128x192x96_f16t_f16n_f32t_vector_distribute_64x96x32_2x2",
    "1x128x128_tile_and_fuse_64x64x32_2x2",
    "16x24x20_tile_and_fuse_64x64x32_2x2",
    "60x64x90_tile_and_fuse_64x64x32_2x2",
    "80x64x32_tile_and_fuse_32x64x32_2x2",
    "1x64x64_accumulate_yes_tile_and_fuse_64x64x32_2x2",
    "128x192x96_accumulate_yes_epilogue_bias_tile_and_fuse_64x64x32_2x2",
}
"""The tested cases with tensor-core tiles that this release of IREE compiles.

The other tested cases are known failures. The names in this set leave out the types and the instruction."""


@pytest.mark.iree
@pytest.mark.parametrize(
    ("family", "tile", "options"),
    [
        *(
            ("vector_distribute", "64x64x32_2x2", {"sizes": sizes})
            for sizes in (
                *((100, 100, 64), (100, 64, 100)),  # larger than a tile, of the result or of an operand
                *((1, 128, 20), (40, 24, 20)),  # smaller than a tile
                *((100, 24, 64), (100, 32, 64), (128, 100, 20), (128, 100, 16)),  # n or k smaller, m larger
                *((128, 40, 64), (128, 56, 64)),  # n is rounded up to 48 and 64
            )
        ),
        *(("vector_distribute", f"64x32x{k}_2x2", {"sizes": (64, 60, size)}) for k, size in ((64, 24), (32, 40))),
        *(("vector_distribute", "64x64x32_2x2_promote_none", {"sizes": (m, 24, 50)}) for m in (32, 40)),
        *(("vector_distribute", "64x128x64_2x2_promote_1", {"sizes": (100, 128, k)}) for k in (137, 60)),
        ("vector_distribute", "64x96x32_2x2", {}),
        ("vector_distribute", "64x96x32_2x2", {"layout": "tn"}),
        *(
            ("tile_and_fuse", "64x64x32_2x2", {"sizes": sizes})
            for sizes in (
                *((1, 128, 128), (16, 24, 20), (60, 64, 90)),  # smaller than a tile; k is rounded up to steps
                *((48, 64, 64), (64, 41, 64), (64, 64, 100)),  # subgroups or steps cannot share instructions equally
            )
        ),
        *(("tile_and_fuse", "32x64x32_2x2", {"sizes": (80, 64, k)}) for k in (32, 64)),
        ("tile_and_fuse", "64x64x32_2x2", {"sizes": (1, 64, 64), "accumulate": "yes"}),
        ("tile_and_fuse", "64x64x32_2x2", {"accumulate": "yes"}),
        ("tile_and_fuse", "64x64x32_2x2", {"accumulate": "yes", "epilogue": "bias"}),
        ("tile_and_fuse", "64x64x32_2x2", {"dynamic": "m"}),
    ],
)
def test_a_case_with_tensor_core_tiles_compiles_or_is_a_known_failure(family, tile, options, workspace):
    tuning = TUNINGS[family].parse(f"{family}_{tile}_{NV}")
    made = {"sizes": (128, 192, 96), "types": "f16_f32", **options}
    case = Case(Dispatch(OPERATIONS["matmul"].make(**made), tuning), TARGETS["cuda-sm_80"])
    why = fails_as(workspace, case)
    words = case.name.replace("f16t_f16t_f32t_", "").partition(f"_{NV}")[0].removeprefix("matmul_")
    assert (why is None) == (words in COMPILED), why


@pytest.mark.iree
@pytest.mark.parametrize(
    "target", [target for target in TARGETS.values() if target.gpu], ids=lambda target: target.name
)
def test_instructions_of_the_table_are_the_compiler_s(target, workspace):
    # The table omits blocked, FNUZ and mixed instructions.
    argv = [workspace.resolver.toolchain.compiler, "-", *target.flags, "--compile-to=executable-targets"]
    text = Dispatch(OPERATIONS["elementwise"].make((4, 4)), TUNINGS["default"].parse("default")).module()
    made = subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout
    listed = re.findall(r"<(\w+)>", re.search(r"mma = \[(.*?)\]", made)[1])
    plain = re.compile(r"(?!\w+FNUZ)[A-Z0-9_]+_\d+x\d+x\d+_[A-Z0-9]+")
    assert {*target.gpu.mma} == {name for name in listed if plain.fullmatch(name)}


@pytest.mark.iree
def test_a_workgroup_size_that_the_compiler_did_not_apply_is_reported(workspace, monkeypatch):
    # The module requests 128 threads, but the check expects 64.
    family = TUNINGS["tile_and_fuse"]
    tuning = family.parse(f"tile_and_fuse_64x64x32_2x2_{NV}")
    monkeypatch.setattr(family, "_translation", "workgroup_size = [64, 1, 1] subgroup_size = 32")
    operation = OPERATIONS["matmul"].make((64, 64, 64), "f16_f32")
    right = family.lowering
    monkeypatch.setattr(family, "lowering", lambda *given: _with_128_threads(right(*given)))
    record = compiled(workspace, "cuda-sm_80", operation, tuning)
    assert not record.ok
    assert record.reason.startswith("configuration ignored: asked for TileAndFuse workgroup_size = [64, 1, 1]")


def _with_128_threads(lowering):
    from msgspec.structs import replace

    return replace(lowering, prelude=lowering.prelude.replace("[64, 1, 1]", "[128, 1, 1]"))


@pytest.mark.iree
def test_tiles_for_vulkan_are_applied_and_verified_where_there_is_a_device(workspace):
    tuning, operation = TUNINGS["base_vectorize"].parse("base_vectorize_32x64_4x8x4"), OPERATIONS["matmul"]
    target = TARGETS["vulkan"]
    made = operation.make((64, 64, 64))
    large = TUNINGS["base_vectorize"].parse("base_vectorize_64x64_4x4x4")
    assert unsupported_reason(made, large, target) == "needs 256 invocations in a workgroup; Vulkan promises 128"
    assert unsupported_reason(made, large, TARGETS["metal"]) is None
    assert "of SPIR-V, not of llvm-cpu" in unsupported_reason(operation.make((64, 64, 64)), tuning, TARGETS["llvm-cpu"])
    case = Case(Dispatch(operation.make((64, 128, 64)), tuning), target)
    record = workspace.executor.compile(case)
    assert record.ok, record.reason
    assert record.facts["applied"] == (
        "BaseVectorize workgroup_size = [8, 8, 1] generic<tile_sizes = [[32, 64], [4, 8], [0, 0, 4]]>"
    )
    device = workspace.resolver.chain(case).device
    if device.absent is not None:
        pytest.skip(device.absent)
    verified = workspace.executor.verify(case, device)
    assert verified.ok, verified.reason


@pytest.mark.iree
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("target", "mma"), [(name, mma) for name, target in TARGETS.items() if target.gpu for mma in target.gpu.mma]
)
def test_every_intrinsic_of_every_architecture_has_a_tile_that_compiles(family, target, mma, workspace):
    operation = OPERATIONS["matmul"]
    for word in operation.signatures:
        for tuning in TUNINGS[family].expand({"mma": mma})[-2:]:
            made = operation.make((256, 256, 256), word)
            if unsupported_reason(made, tuning, TARGETS[target]) is None:
                assert (
                    mma.startswith("NV_WMMA")
                    or fails_as(workspace, Case(Dispatch(made, tuning), TARGETS[target])) is None
                )
