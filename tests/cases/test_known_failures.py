"""Known failures: the words of an entry, ours with a real case each, and what a run, `plan` and `known` say of them."""

from __future__ import annotations

from pathlib import PurePath

import pytest
from support import lavapipe
from support.project import REPOSITORY, Project, only, sweep

from dispatchflow.cases import known_failures
from dispatchflow.cases.dispatch import Case, Dispatch
from dispatchflow.cases.known_failures import KnownFailures, version_of
from dispatchflow.errors import SpecError
from dispatchflow.iree.targets import TARGETS
from dispatchflow.operations import OPERATIONS
from dispatchflow.project.workspace import Workspace
from dispatchflow.tunings import TUNINGS

GOOD = {"match": '"matmul_*"', "stage": '"compile"', "message": '"x"', "reason": '"because"'}


def text(**words: str) -> str:
    return "[[known_failure]]\n" + "".join(f"{word} = {value}\n" for word, value in (GOOD | words).items() if value)


def parsed(**words: str) -> known_failures.KnownFailure:
    (entry,) = known_failures.parse(text(**words), PurePath("specs/a.toml"))
    return entry


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"stage": ""}, "a known failure needs 'stage'"),
        ({"reason": ""}, "a known failure needs 'reason'"),
        ({"stage": '"compil"'}, "Did you mean 'compile'?"),
        ({"message": '"("'}, "not a regular expression"),
        ({"toolchain": '"3.11"'}, "not a range of releases"),
        ({"toolchain": "3.11"}, "wrong type"),
        ({"some": '"yes"'}, "true or false"),
        ({"match": "{ target = 3.5 }"}, "a pattern, or a list of patterns"),
        ({"match": "{ targt = 'vmvx' }"}, "Did you mean 'target'?"),
        ({"mesage": '"x"'}, "Did you mean 'message'?"),
    ],
)
def test_entry_that_is_wrong_is_an_error_with_its_place(words: dict[str, str], says: str) -> None:
    with pytest.raises(SpecError) as caught:
        parsed(**words)
    assert says in str(caught.value)
    assert "specs/a.toml:1, known_failure[0]" in str(caught.value)


def test_entries_are_a_list_of_tables() -> None:
    with pytest.raises(SpecError, match="in two brackets"):
        known_failures.parse("[known_failure]\n", PurePath("a.toml"))


@pytest.mark.parametrize(
    ("toolchain", "version", "holds"),
    [
        ("", "3.13.0", True),
        (">=3.11", "3.11.0rc20260316", True),
        (">=3.11", "3.10.0", False),
        ("<=3.13", "3.13.1", True),
        (">3.13", "3.13.1", False),
        (">=3.9, <3.12", "3.12.0", False),
        ("==3.12", "3.12.0", True),
        ("<3.11", "20241104.1068", True),  # a date is older than all releases
        (">=3.11", "", True),  # a build tree that says nothing is newer
    ],
)
def test_range_of_releases(toolchain: str, version: str, holds: bool) -> None:
    assert parsed(toolchain=f'"{toolchain}"').holds_for(version_of(version)) == holds


def made(
    operation: str, shape: str, dtype: str, tuning: str, target: str, layout: str | None = None, **options
) -> Case:
    sizes = tuple(map(int, shape.split("x")))
    program = OPERATIONS[operation].make(sizes, dtype, layout, **options)
    asked = next(filter(None, (family.parse(tuning) for family in TUNINGS.values())))
    return Case(Dispatch(program, asked), TARGETS[target], 1 if TARGETS[target].has_threads else None)


@pytest.mark.parametrize(
    ("match", "covered"),
    [
        ('"matmul_4x8x16_f16t*"', True),
        ('"matmul_4x8x16"', False),
        ("{ operation = ['conv2d', 'matmul'], target = 'vmvx', backend = 'vm*' }", True),
        ("{ dtype = 'f16,*' }", True),
        ("{ dtype = 'f16' }", False),
        ("{ k = 16, m = '>=4', n = '>7, <9' }", True),
        ("{ k = '>16' }", False),
        ("{ accumulate = 'no', layout = 't?' }", True),
        ("{ padding = '*' }", False),  # a product has none
    ],
)
def test_match_is_patterns_over_words(match: str, covered: bool) -> None:
    case = made("matmul", "4x8x16", "f16_f32", "default", "vmvx")
    assert parsed(match=match).covers(case) == covered
    assert bool(KnownFailures([parsed(match=match)], "3.13.0", lambda log: "").covering(case)) == covered


@pytest.mark.parametrize(("patterns", "covered"), [("avx512f", True), ("avx512*", True), ("sve", False)])
def test_match_is_patterns_over_features_of_the_targets_cpu(patterns: str, covered: bool) -> None:
    entry = parsed(match=f"{{ operation = 'matmul', features = '{patterns}' }}")
    cpu, gpu = (made("matmul", "4x8x16", "f16_f32", "default", target) for target in ("llvm-cpu", "cuda-sm_80"))

    def features(target):
        return ["avx2", "avx512f"] if target.backend == "llvm-cpu" else []

    assert entry.covers(cpu, features=features) == covered
    assert not entry.covers(gpu, features=features)
    assert not entry.covers(cpu)


@pytest.mark.iree
def test_a_failure_of_one_kind_of_cpu_is_not_known_of_another(tmp_path) -> None:
    """Rows of i4 are a known failure with AVX-512; AVX2 code of the same case compiles, and is an ordinary case."""
    words = ("m=33", "n=48", "k=128", "dtype=i4", "threads=1", "compile")
    project = Project.make(tmp_path / "p")
    old = project.doit("target=llvm-cpu-x86-64-v4", *words)
    assert "1 known failure" in old.out, str(old)
    new = project.doit("target=llvm-cpu-x86-64-v3", *words)
    assert "1 compiled; 0 reused, 0 failed, 0 skipped" in new.out, str(new)
    assert "1 case: 1 as known\n  rows of i4" in project.doit("target=llvm-cpu-x86-64-v4", *words[:-1], "known").out
    assert "rows of i4" not in project.doit("target=llvm-cpu-x86-64-v3", *words[:-1], "known").out.split("0 cases")[0]


EXAMPLES = {
    "vmvx has no sums in bf16, nor the zero that one begins with": (
        *("matmul", "8x8x8", "bf16_bf16", "default", "vmvx"),
    ),
    "rows of i4 that tiles do not divide are read with a masked load, which is not split into bytes": (
        *("matmul", "33x48x128", "i4", "default", "llvm-cpu-x86-64-v4"),
    ),
    "GPUs are given a product of i8 and i4 as one vector.contract of both types": (
        *("matmul", "64x64x64", "i8_i4", "default", "cuda-sm_80"),
    ),
    "i4 is unpacked with a vector.bitcast that Metal's SPIR-V does not have": (
        *("matmul", "33x64x128", "i4", "default", "metal"),
    ),
    "scales of blocks are not lowered for CUDA": ("scaled_matmul", "33x48x128", "f8E4M3FN", "default", "cuda-sm_89"),
    "scales of blocks of f8 are lowered for gfx950 only": (
        *("scaled_matmul", "33x48x128", "f8E4M3FN", "default", "rocm-gfx1201"),
    ),
    "scales of blocks are not lowered for SPIR-V": ("scaled_matmul", "33x48x128", "f4E2M1FN", "default", "vulkan"),
    "data tiling packs no convolutions and no attention": ("conv2d", "1x5x8x3x7x1x3", "i8", "data_tiling", "llvm-cpu"),
    "only sums of a matmul are split, of static size and into slices of equal length; else the flag is ignored": (
        *("batch_matmul", "2x8x8x24", "f32", "split_k_4", "llvm-cpu"),
    ),
    "vmvx has no f16 arithmetic": ("matmul", "1x24x40", "f16_f32", "default", "vmvx"),
    "vmvx cannot pad bf16 to whole tiles: it has no bf16 constants": (
        "matmul",
        "5x24x42",
        "bf16",
        "data_tiling",
        "vmvx",
    ),
    "llvm-cpu has no tiles for f64, i64, i32, ui8 and i4": ("matmul", "1x24x40", "f64", "data_tiling", "llvm-cpu"),
    "tanh and gelu of f64 are left to the mathematical library, which is not linked": (
        *("elementwise", "40x24", "f64", "default", "llvm-cpu"),
        {"kind": "gelu"},
    ),
    "a chain whose first product is one number, which is narrowed, cannot be packed": (
        *("chain", "1x24x40x1", "f16_f32_f16", "data_tiling", "llvm-cpu"),
    ),
    "convolutions of each channel by itself, channels first, lose their configuration where a dim is 1": (
        *("depthwise_conv2d", "1x5x8x7x1x3", "f32"),
        *("conv_tile_and_decompose_0x8x32x32_1x1x8x32_1x1x8", "llvm-cpu", {"layout": "nchw_chw"}),
    ),
    "data tiling packs nothing for CUDA, Vulkan and Metal": ("matmul", "8x8x8", "f32", "data_tiling", "metal"),
    "no f8 is compiled for a GPU before sm_89": ("matmul", "4x4x4", "f8E5M2", "default", "cuda-sm_80"),
    "rocm packs for its matrix instructions, and fails where it has none for the types": (
        *("matmul", "48x32x16", "i64", "data_tiling", "rocm-gfx1201"),
    ),
    "sums in f16 and bf16 get an instruction that sums in f32": ("matmul", "64x64x64", "f16", "default", "rocm-gfx942"),
    "rocm cannot pack a chain of few rows": ("chain", "1x24x40x1", "bf16_f32_bf16", "data_tiling", "rocm-gfx942"),
    "these GPUs have at most the FNUZ types of f8": ("matmul", "1x24x40", "f8E4M3FN", "default", "rocm-gfx942"),
    "rocm cannot pack vectors, nor the slices of a sum": ("vecmat", "64x64", "i8", "data_tiling", "rocm-gfx90a"),
    "attention is not compiled to SPIR-V": ("attention", "1x5x7x9x40", "f16", "default", "vulkan"),
    "products of narrow types are vectorized for SPIR-V with a vector.bitcast that is then refused": (
        *("conv2d", "1x16x16x16x16x1x1", "bf16", "default", "metal"),
    ),
    "the SPIR-V that IREE makes by default has no 64-bit floats": ("elementwise", "1x24", "f64", "default", "vulkan"),
    "products of i64 are vectorized for SPIR-V with an op that is then refused": (
        *("matmul", "64x64x64", "i64", "default", "vulkan"),
    ),
    "products of i8 become dot products that Metal's SPIR-V does not have": (
        *("matmul", "48x32x16", "i8", "default", "metal"),
    ),
    "a last tile that is cut off is not bufferized unless its loop has one iteration": (
        *("matmul", "40x24x20", "f16_f32", "tile_and_fuse_64x64x32_2x2_MFMA_F32_16x16x16_F16", "rocm-gfx942"),
        {"layout": "tn"},
    ),
    "a promoted operand that is cut off is scattered by threads that may not write": (
        *("matmul", "48x64x64", "f16_f32", "tile_and_fuse_32x64x32_2x2_MFMA_F32_16x16x16_F16", "rocm-gfx942"),
    ),
    "NV_WMMA instructions are listed and not compiled": (
        *("matmul", "256x256x256", "f16_f32", "vector_distribute_64x64x32_2x2_NV_WMMA_F32_16x16x16_F16", "cuda-sm_80"),
    ),
    "tiles that are cut off along two dims of an operand, or not shared out evenly to the threads, are not distributed": (
        *("matmul", "40x24x20", "f16_f32", "vector_distribute_32x64x32_2x2_MFMA_F32_16x16x16_F16", "rocm-gfx942"),
    ),
    "vmvx cannot take a tile out of i4 where sizes are dynamic": (
        *("matmul", "40x24x56", "i4", "default", "vmvx", {"dynamic": "m"}),
    ),
    "the slices of a split sum are allocated without the number of rows, where that is dynamic": (
        *("matmul", "40x24x56", "f32", "split_k_4", "llvm-cpu", {"dynamic": "m"}),
    ),
    "products of one row or column in ui8 become products with vectors, and lose their configuration": (
        *("matmul", "1x24x40", "ui8_i8", "double_tiling_64x64_8x8x1", "llvm-cpu"),
    ),
    "vector tiles of 512 native vectors and more are refused": (
        *("matmul", "512x512x512", "f32", "double_tiling_64x64_32x32x64", "llvm-cpu"),
    ),
    "nothing is fused with a sum of which there is only one: it takes one dispatch more": (
        *("matmul", "1x1x8", "f32", "default", "llvm-cpu", {"epilogue": "bias"}),
    ),
    "nothing is packed where all sizes are 1": ("vecmat", "1x1", "f32", "data_tiling", "vmvx"),
    "a padded window with a stride is compiled for another image where its result has one row or column": (
        *("conv2d", "1x2x2x4x8x3x3", "f32", "default", "vmvx", {"padding": 1, "stride": 3}),
    ),
    "keys of more than 128 elements are cut off, and results are wrong": (
        *("attention", "1x4x4x129x8", "f32", "default", "llvm-cpu"),
    ),
}
WRONG_ON_LAVAPIPE = {
    "results are missing on lavapipe, where depthwise convolutions have the channels first": {
        "operation": "depthwise_conv2d", "shape": "1x16x16x8x3x3", "padding": "1", "layout": "nchw_chw",
    },
    "of few rows several threads add their sum to the same element, on lavapipe at least": {
        "operation": "matmul", "shape": "2x24x40", "accumulate": "yes", "tuning": "base_vectorize_64x64_8x8x4",
    },
    "of small images several threads add their sum to the same element, on lavapipe at least": {
        "operation": "conv2d", "shape": "1x5x8x3x7x1x3", "accumulate": "yes", "layout": "nchw_fchw",
    },
}  # fmt: skip
ELSEWHERE = {
    "largest elements of f16 are left to the mathematical library, which is not linked, on CPUs without f16",
}


def test_each_of_our_entries_has_an_example() -> None:
    present = {entry.reason for entry in known_failures.shipped() if entry.holds_for((3, 13, 0))}
    assert present == EXAMPLES.keys() | WRONG_ON_LAVAPIPE.keys() | ELSEWHERE


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("known"), {})


@pytest.mark.iree
@pytest.mark.parametrize("reason", EXAMPLES)
def test_it_fails_as_known(reason: str, workspace: Workspace) -> None:
    *words, last = EXAMPLES[reason]
    case = made(*words, **last) if isinstance(last, dict) else made(*words, last)
    workspace.executor.verify(case, workspace.resolver.chain(case).device)
    chain = workspace.resolver.chain(case)
    assert chain.known is not None, chain.failure
    assert chain.known.reason == reason


@pytest.mark.iree
@pytest.mark.parametrize("reason", WRONG_ON_LAVAPIPE)
def test_results_that_are_wrong_on_lavapipe_are_known(reason: str, tmp_path) -> None:
    try:
        vulkan = lavapipe.environment(REPOSITORY / ".lavapipe")
    except lavapipe.Unavailable as error:
        pytest.skip(f"no Vulkan here: {error}")
    words = [f"{word}={value}" for word, value in {**WRONG_ON_LAVAPIPE[reason], "target": "vulkan"}.items()]
    outcome = Project.make(tmp_path / "p").doit(*words, "verify", **vulkan)
    assert f"known failure: {reason} (" in outcome.out, str(outcome)
    assert outcome.code == 0


FAILING = "matmul_8x8x8_f16t_f16t_f16t_default@vmvx-1t"
OWN = """
[[known_failure]]
match = { operation = "matmul", dtype = "f32,*" }
stage = "compile"
message = "never said"
reason = "it was slow, https://example.org/1"
"""


@pytest.mark.iree
def test_known_failure_is_tried_once_and_is_no_failure_of_the_run(tmp_path) -> None:
    project = Project.make(tmp_path / "p", sweep(m=8, n=8, k=8, dtype=["f16", "f32"], target="vmvx", threads=1) + OWN)

    first = project.doit("verify")
    assert first.code == 0, str(first)
    assert f"compile {FAILING} known failure: compile failed: failed to legalize operation" in first.out
    assert f"known failure: vmvx has no f16 arithmetic ({FAILING})" in first.out
    assert "no longer fails: it was slow, https://example.org/1 (matmul_8x8x8_f32" in first.out
    assert "; 0 reused, 0 failed, 1 known failure, 0 skipped; " in first.out

    made, again = project.made_by("verify")
    assert made == only()
    assert "1 known failure, 0 skipped" in again.out
    assert project.doit("known_failures=strict", "verify").code == 1
    off = project.doit("known_failures=off", "verify")
    assert (off.code, "0 reused, 1 failed" in off.out or "1 reused, 1 failed" in off.out) == (1, True), off

    planned = project.doit("plan", "verify").out
    assert "1 known failure: vmvx has no f16 arithmetic" in planned
    assert (
        "known failure: vmvx has no f16 arithmetic (known_failures.toml:"
        in project.doit("explain", f"compile:{FAILING}").out
    )
    listed = project.doit("known").out
    assert "1 case: 1 as known\n  vmvx has no f16 arithmetic\n" in listed
    assert "1 case: 1 passes\n  it was slow, https://example.org/1\n" in listed
    assert listed.splitlines()[-1].endswith("entries; 2 cases selected")


@pytest.mark.iree
def test_row_says_which_failure_it_is(tmp_path) -> None:
    project = Project.make(tmp_path / "p", sweep(m=8, n=8, k=8, dtype="f16", target="vmvx", threads=1))
    assert project.doit("protocol=fast").code == 0
    (row,) = project.rows()
    assert (row["status"], row["known_failure"]) == ("known failure", "vmvx has no f16 arithmetic")
    assert row["reason"].startswith("compile failed: failed to legalize operation 'arith.constant'")


@pytest.mark.iree
@pytest.mark.parametrize(
    ("words", "code"),
    [({"message": '"another"'}, 1), ({"stage": '"verify"'}, 1), ({"toolchain": '"<3.0"'}, 1), ({}, 0)],
)
def test_failure_that_is_another_one_is_none_that_is_known(words: dict[str, str], code: int, tmp_path) -> None:
    """The log is searched too: the reason leaves out who said it."""
    entry = text(**{"message": '"iree-compile: for the --iree-opt-level option"'} | words)
    spec = sweep(m=8, n=8, k=8, flags="--iree-opt-level=O9")
    project = Project.make(tmp_path / "p", spec + entry)
    assert project.doit("verify").code == code


def test_entry_of_a_spec_that_is_wrong_stops_the_run(tmp_path) -> None:
    project = Project.make(tmp_path / "p", sweep(m=8, n=8, k=8) + text(stage='"compil"'))
    outcome = project.doit("list")
    assert outcome.code == 2
    assert "Did you mean 'compile'?" in outcome.err
