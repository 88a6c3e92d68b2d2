"""Matrix-instruction tiles of GPUs: what may be asked for, where, and that it is what the compiler applied."""

import dataclasses
import re
import subprocess

import pytest

from dispatchflow import plan, spec
from dispatchflow.dispatch import Case, Dispatch
from dispatchflow.errors import SpecError
from dispatchflow.operations import OPERATIONS
from dispatchflow.plan import unsupported_reason
from dispatchflow.targets import TARGETS, Gpu
from dispatchflow.tunings import TUNINGS
from dispatchflow.workspace import Workspace

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
def test_tile_that_fits_is_no_skip(family):
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
        ({"tile": "48x64x32_2x2"}, "a tile of 48x64x32 is no multiple of 2x2 subgroups' instructions, 32x16x16"),
        ({"tile": "64x64x24_2x2"}, "no multiple of 2x2 subgroups' instructions"),
        ({"shape": (250, 256, 256)}, "m = 250 is no multiple of the tile's 64"),
        ({"shape": (1, 256, 256)}, None),
        ({"shape": (16, 8, 20)}, None),
        ({"shape": (64, 256, 90)}, None),
        (
            {"shape": (48, 256, 256)},
            "m = 48 takes 3 instructions, no multiple of the 2 of a subgroup (IREE 3.13: 'op was",
        ),
        ({"shape": (60, 256, 256)}, None),
        ({"shape": (256, 41, 256)}, "n = 41 takes 6 instructions, no multiple of the 4 of a subgroup"),
        ({"shape": (256, 256, 100)}, "k = 100 takes 7 instructions, no multiple of the 2 of a step"),
        ({"shape": (80, 64, 32), "tile": "32x64x32_2x2"}, None),
        ({"shape": (80, 64, 64), "tile": "32x64x32_2x2"}, "m = 80 is no multiple of the tile's 32"),
        ({"shape": (250, 256, 256), "target": "rocm-gfx942"}, f"rocm-gfx942 has no {NV}"),
        ({"shape": (250, 256, 256), "family": "vector_distribute"}, None),
        ({"shape": (256, 24, 256), "family": "vector_distribute"}, None),
        ({"shape": (256, 40, 256), "family": "vector_distribute"}, "the 32x48 elements of promoted operand 1"),
        (
            {"shape": (250, 24, 256), "family": "vector_distribute"},
            "m = 250 is no multiple of the tile's 64 and n = 24 is no multiple of the subgroups' 16, of the result",
        ),
        ({"shape": (250, 250, 256), "family": "vector_distribute"}, None),
        ({"shape": (256, 256, 250), "family": "vector_distribute"}, None),
        (
            {"shape": (250, 256, 250), "family": "vector_distribute"},
            "m = 250 is no multiple of the tile's 64 and k = 250 is no multiple of the tile's 32, of operand 0 (IREE",
        ),
        (
            {"shape": (256, 250, 250), "family": "vector_distribute"},
            "k = 250 is no multiple of the tile's 32 and n = 250",
        ),
        ({"shape": (250, 256, 250), "family": "vector_distribute", "tile": "64x64x32_2x2_promote_1"}, None),
        ({"shape": (64, 60, 24), "family": "vector_distribute", "tile": "64x32x64_2x2"}, None),
        ({"shape": (64, 60, 40), "family": "vector_distribute", "tile": "64x32x32_2x2"}, "of operand 1"),
        ({"shape": (64, 60, 24), "family": "vector_distribute", "tile": "64x48x64_2x2_promote_1"}, "of operand 1"),
        ({"dynamic": "m"}, "dynamic m is no multiple of the tile's 64"),
        ({"dynamic": "m", "family": "vector_distribute"}, None),
        ({"dynamic": "mnk", "family": "vector_distribute"}, "dynamic m is no multiple of the tile's 64 and dynamic k"),
        (
            {"tile": "64x64x48_2x2", "family": "vector_distribute"},
            "the 64x48 elements of promoted operand 0, 6 pieces of 16 B a row, are not shared out evenly to 128 threads",
        ),
        ({"tile": "64x96x32_2x2", "family": "vector_distribute"}, "the 32x96 elements of promoted operand 1"),
        ({"tile": "64x96x32_2x2", "family": "vector_distribute", "layout": "tn"}, None),
        ({"tile": "64x96x32_2x2_promote_0", "family": "vector_distribute"}, None),
        ({"accumulate": "yes"}, "cuda cannot accumulate with tile_and_fuse and no epilogue"),
        ({"accumulate": "yes", "shape": (1, 256, 256)}, None),
        ({"accumulate": "yes", "epilogue": "bias"}, None),
        ({"accumulate": "yes", **AMD}, None),
        ({"dtype": "f8E5M2", "target": "cuda-sm_89", "mma": "NV_MMA_SYNC_F32_16x8x32_F8E5M2"}, None),
        ({"dtype": "f8E5M2", "target": "rocm-gfx1201", "mma": "WMMAR4_F32_16x16x16_F8E5M2"}, None),
        ({"tile": "64x64x32_2x2_stages_3"}, "changes nothing on cuda"),
        ({"tile": "64x64x32_2x2_stages_3", **AMD}, None),
        ({"tile": "64x64x32_2x2_stages_4", **AMD}, "4 stages are the same code as 3"),
        ({"tile": "64x64x128_2x2_stages_2", **AMD}, "is not pipelined (IREE 3.13): k = 256 in steps of 128"),
        ({"tile": "64x64x128_2x2_stages_1", **AMD}, None),
        ({"tile": "64x64x32_2x2_promote_none_stages_2", **AMD}, "pipelines only where both operands are promoted"),
        ({"tile": "64x64x32_2x2_promote_0_stages_2", **AMD}, "pipelines only where both"),
        ({"tile": "64x64x32_2x2_promote_none_stages_2", "family": "vector_distribute", **AMD}, None),
        ({"target": "rocm-gfx942"}, f"has no {NV}; write mma = MFMA_F32_16x16x16_F16 or MFMA_F32_32x32x8_F16"),
        ({"mma": "NV_WMMA_F32_16x16x16_F16"}, "lists NV_WMMA_F32_16x16x16_F16 for cuda-sm_80 and does not compile it"),
        ({"tile": "256x256x16_16x4"}, "needs 2048 threads in a workgroup; cuda-sm_80 has 1024"),
        ({"tile": "256x256x128_4x2"}, None),
        ({"tile": "256x256x128_4x2", "target": "cuda-sm_86"}, "needs 134144 B of shared memory; cuda-sm_86 has 101376"),
        ({"tile": "256x256x128_4x2_promote_0", "target": "cuda-sm_86"}, None),
        (
            {"tile": "512x256x64_4x4", "target": "cuda-sm_86", "shape": (512, 256, 256)},
            "needs 102912 B of shared memory; cuda-sm_86 has 101376",
        ),
        ({"tile": "512x256x64_4x4", "target": "cuda-sm_89", "shape": (512, 256, 256)}, None),
        ({"tile": "128x128x128_2x2", **AMD}, None),
        ({"tile": "256x256x256_4x2"}, "needs 262144 B of shared memory; cuda-sm_80 has 166912"),
    ],
)
def test_what_an_architecture_cannot_have_is_a_skip_with_the_reason(words, says):
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
def test_parameters_that_cannot_be_are_an_error(parameters, says):
    table = {"operation": "matmul", "shape": "64x64x64", "tuning": {"family": "vector_distribute", **parameters}}
    with pytest.raises(SpecError) as caught:
        plan.expand([spec.sweep(table, "here")])
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


@pytest.mark.iree
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("target", "name", "shape", "dtype", "tile", "mma"), QUICK, ids=[quick[0] for quick in QUICK])
def test_what_is_asked_is_what_is_applied(family, target, name, shape, dtype, tile, mma, workspace):
    tuning, operation = TUNINGS[family].parse(f"{family}_{tile}_{mma}"), OPERATIONS[name].make(shape, dtype)
    record = compiled(workspace, target, operation, tuning)
    assert record.ok, record.reason
    configuration = tuning.requested(operation).split("mma_kind")[1]
    assert configuration in record.facts["applied"]


@pytest.mark.iree
@pytest.mark.parametrize("family", FAMILIES)
def test_an_instruction_that_is_listed_and_not_compiled_is_a_skip(family, workspace):
    tuning = TUNINGS[family].parse(f"{family}_64x64x32_2x2_NV_WMMA_F32_16x16x16_F16")
    operation, target = OPERATIONS["matmul"].make((128, 128, 64), "f16_f32"), TARGETS["cuda-sm_80"]
    assert "does not compile it" in unsupported_reason(operation, tuning, target)
    assert not workspace.executor.compile(Case(Dispatch(operation, tuning), target)).ok


@pytest.mark.iree
def test_more_stages_than_have_an_effect_are_a_skip(workspace):
    """Two are other code than three, and four are not."""
    words = {"shape": (64, 64, 96), **AMD}
    assert [reason(f"64x64x32_2x2_stages_{n}", **words) is None for n in (2, 3, 4)] == [True, True, False]
    operation, digests = OPERATIONS["matmul"].make(words["shape"], "f16_f32"), []
    for n in (2, 3, 4):
        tuning = TUNINGS["tile_and_fuse"].parse(f"tile_and_fuse_64x64x32_2x2_stages_{n}_{AMD['mma']}")
        record = workspace.executor.compile(Case(Dispatch(operation, tuning), TARGETS[AMD["target"]]))
        digests.append(record.facts["code_digest"])
    assert digests[0] != digests[1] == digests[2]


@pytest.mark.iree
@pytest.mark.parametrize(
    ("family", "tile", "options"),
    [
        *(
            ("vector_distribute", "64x64x32_2x2", {"sizes": sizes})
            for sizes in (
                *((100, 100, 64), (100, 64, 100)),  # more than a tile: of the result, of an operand
                *((1, 128, 20), (40, 24, 20)),  # less than one
                *((100, 24, 64), (100, 32, 64), (128, 100, 20), (128, 100, 16)),  # less, beside more
                *((128, 40, 64), (128, 56, 64)),  # shared out as 48 and 64
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
                *((1, 128, 128), (16, 24, 20), (60, 64, 90)),  # less than a tile, k rounded up to steps
                *((48, 64, 64), (64, 41, 64), (64, 64, 100)),  # as many instructions as subgroups or steps do not share
            )
        ),
        *(("tile_and_fuse", "32x64x32_2x2", {"sizes": (80, 64, k)}) for k in (32, 64)),
        ("tile_and_fuse", "64x64x32_2x2", {"sizes": (1, 64, 64), "accumulate": "yes"}),
        ("tile_and_fuse", "64x64x32_2x2", {"accumulate": "yes"}),
        ("tile_and_fuse", "64x64x32_2x2", {"accumulate": "yes", "epilogue": "bias"}),
        ("tile_and_fuse", "64x64x32_2x2", {"dynamic": "m"}),
    ],
)
def test_it_compiles_or_is_a_skip(family, tile, options, workspace):
    tuning = TUNINGS[family].parse(f"{family}_{tile}_{NV}")
    made = {"sizes": (128, 192, 96), "types": "f16_f32", **options}
    operation, target = OPERATIONS["matmul"].make(**made), TARGETS["cuda-sm_80"]
    record = workspace.executor.compile(Case(Dispatch(operation, tuning), target))
    assert record.ok == (unsupported_reason(operation, tuning, target) is None), record.reason


@pytest.mark.iree
@pytest.mark.parametrize(
    "target", [target for target in TARGETS.values() if target.gpu], ids=lambda target: target.name
)
def test_instructions_of_the_table_are_the_compiler_s(target, workspace):
    """But for those that the table leaves out by kind: blocked, FNUZ and mixed ones."""
    argv = [workspace.resolver.toolchain.compiler, "-", *target.flags, "--compile-to=executable-targets"]
    text = Dispatch(OPERATIONS["elementwise"].make((4, 4)), TUNINGS["default"].parse("default")).module()
    made = subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout
    listed = re.findall(r"<(\w+)>", re.search(r"mma = \[(.*?)\]", made)[1])
    plain = re.compile(r"(?!\w+FNUZ)[A-Z0-9_]+_\d+x\d+x\d+_[A-Z0-9]+")
    assert {*target.gpu.mma, *target.gpu.uncompiled} == {name for name in listed if plain.fullmatch(name)}


@pytest.mark.iree
@pytest.mark.parametrize(("sizes", "layout"), [((128, 64, 64), "tt"), ((128, 64, 64), "nn"), ((40, 24, 20), "tt")])
def test_shared_memory_is_what_the_compiler_takes(sizes, layout, workspace):
    """Counted from the tile, or what is taken of it; its limit is one byte below and at that."""
    tuning = TUNINGS["vector_distribute"].parse(f"vector_distribute_128x64x32_2x2_{NV}")
    operation, target = OPERATIONS["matmul"].make(sizes, "f16_f32", layout), TARGETS["cuda-sm_80"]
    argv = [workspace.resolver.toolchain.compiler, "-", *target.flags, "--compile-to=executable-targets"]
    text = Dispatch(operation, tuning).module()
    made = subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout
    (taken,) = re.findall(r"workgroup_local_memory = (\d+)", made)
    short, enough = (
        dataclasses.replace(target, gpu=Gpu(int(taken) - less, 32, (NV,), assumed_bytes=166912)) for less in (1, 0)
    )
    assert f"needs {taken} B of shared memory" in unsupported_reason(operation, tuning, short)
    assert unsupported_reason(operation, tuning, enough) is None


@pytest.mark.iree
def test_sizes_of_a_workgroup_that_the_compiler_did_not_apply_are_told(workspace, monkeypatch):
    """The dump is the compiler's own; what was asked for differs in one number."""
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
                record = compiled(workspace, target, made, tuning)
                assert record.ok, (tuning.name, record.reason)
