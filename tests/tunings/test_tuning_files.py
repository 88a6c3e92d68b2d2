"""Tuning specs and transform-dialect libraries are applied, or reported as failures."""

import dataclasses
import re
from pathlib import Path, PurePath

import pytest
from support.project import Project, sweep

from dispatchflow.errors import SpecError
from dispatchflow.iree import configurations
from dispatchflow.iree.configurations import Applied
from dispatchflow.iree.release import NEWEST, Release
from dispatchflow.iree.targets import TARGETS
from dispatchflow.mlir import attributes
from dispatchflow.planning import parser, plan
from dispatchflow.project.workspace import Workspace
from dispatchflow.tunings._tuning_file import named

SPEC = (Path(__file__).parent.parent / "data/tuning/matmul.mlir").read_text()
LIBRARY = SPEC.replace("@main", "@__kernel_config")
GIVES = "distribution = [128, 128, 0], vector_common_parallel = [8, 32, 0], vector_reduction = [0, 0, 1]"
FILES = {
    "a/mine.mlir": SPEC,
    "b/mine.mlir": SPEC,
    "other.mlir": SPEC,
    "my lib.mlir": LIBRARY,
    "empty.mlir": "module {\n}\n",
}
FILES["changed/mine.mlir"] = SPEC.replace("[8, 32, 0]", "[4, 32, 0]")


def read(name: str) -> tuple[str, bytes]:
    if name == "bytecode.mlirbc":
        return name, b"ML\xefR"
    if name not in FILES:
        raise FileNotFoundError(2, "No such file or directory")
    return f"/there/{name}", FILES[name].encode()


def case_with(**words):
    (case,) = plan.expand(parser.parse(sweep(**words), PurePath("t.toml"), {}, read)).cases
    return case


def given(file, family="tuning_spec", **more):
    return case_with(tuning={"family": family, "file": file, **more})


def test_identity_of_a_given_tuning_is_title_and_content_not_the_path():
    assert given("a/mine.mlir") == given("b/mine.mlir")
    names = [given(name).tuning.name for name in ("a/mine.mlir", "other.mlir", "changed/mine.mlir")]
    assert len(set(names)) == 3
    assert [name.rsplit("_", 1)[0] for name in names] == ["tuning_spec_mine", "tuning_spec_other", "tuning_spec_mine"]
    library = given("my lib.mlir", "transform_library", entry="mine").tuning.name
    assert library.startswith("transform_library_my-lib_")
    assert library.endswith(".mine")


def test_content_of_a_given_tuning_is_in_the_key_and_its_path_is_not(resolver_of):
    resolver = resolver_of()
    cases = [given(name) for name in ("a/mine.mlir", "b/mine.mlir", "changed/mine.mlir")]
    flags = [next(flag for flag in resolver.flags(case) if "tuning-spec" in flag) for case in cases]
    assert flags[0] == flags[1] == f"--iree-codegen-tuning-spec-path={cases[0].tuning.file.digest}.mlir"
    keys = [resolver.chain(case)["compile"].key for case in cases]
    assert keys[0] == keys[1] != keys[2]
    assert "/there" not in str(resolver.chain(cases[0])["compile"].action.ingredients)


def test_a_tuning_file_can_be_given_on_the_command_line_too():
    assert case_with(tuning="tuning_spec:a/mine.mlir") == given("a/mine.mlir")


@pytest.mark.parametrize(
    ("tuning", "says"),
    [
        ("tuning_spec", "tuning_spec needs a file"),
        ({"family": "tuning_spec"}, "tuning_spec needs a file"),
        ("tuning_spec:none.mlir", "a file cannot be read"),
        ("tuning_spec:bytecode.mlirbc", "this file is not text"),
        ("tuning_spec:empty.mlir", "tuning_spec cannot be this"),
        ({"family": "tuning_spec", "file": "a/mine.mlir", "entry": "x"}, "tuning_spec cannot be this"),
        ({"family": "transform_library", "file": "a/mine.mlir", "entry": "@x"}, "transform_library cannot be this"),
        ("data_tiling:a/mine.mlir", "unknown tuning 'data_tiling:a/mine.mlir'"),
    ],
)
def test_a_missing_or_invalid_tuning_file_is_an_error(tuning, says):
    with pytest.raises(SpecError) as caught:
        case_with(tuning=tuning)
    assert caught.value.problem == says


def test_configurations_are_compared_independently_of_their_spelling():
    (found,) = attributes.configurations(SPEC)
    assert found == GIVES
    one = "#iree_gpu.lowering_config<{ workgroup=[64,64, 0],\n mma_kind = #iree_gpu.mma_layout< WMMA_F32 >, reduction = [0, 0, 2]}>"
    other = "#iree_gpu.lowering_config<{mma_kind = #iree_gpu.mma_layout<WMMA_F32>, reduction = [0, 0, 2], workgroup = [64, 64, 0]}>"
    assert list(attributes.configurations(one)) == list(attributes.configurations(other))
    assert len(list(attributes.configurations(one + other))) == 2


CHOSEN = configurations.parse((Path(__file__).parent.parent / "data/configurations/default.mlir").read_text())


def given_is(*configurations: str) -> Applied:
    return dataclasses.replace(CHOSEN, given=configurations)


def test_a_tuning_spec_that_matched_no_op_is_reported():
    missed = given("a/mine.mlir").dispatch.missed
    for found in (CHOSEN, given_is("distribution = [1]")):
        assert re.search(r"ignored: mine_\w+ matched no op; the compiler's own choice: Double", missed(found))
    assert missed(Applied(())).endswith("matched no op; the compiler's own choice: nothing")
    assert "matched an op, which did not keep distribution = [128, 128, 0], " in missed(given_is(GIVES))


def test_a_compiler_choice_equal_to_the_specs_does_not_count_as_applied():
    (chosen,) = [config for op, config in CHOSEN.executables[0].configurations if op == "matmul"]
    FILES["same.mlir"] = SPEC.replace(SPEC[SPEC.index("distribution") : SPEC.index(">,")], chosen)
    missed = given("same.mlir").dispatch.missed
    assert "matched no op; the compiler's own choice, the same as in the file: Double" in missed(CHOSEN)
    assert missed(given_is(chosen)) is None


def test_a_configuration_in_a_comment_is_ignored():
    alone = "//: #iree_cpu.lowering_config<distribution = [1]>\n"
    FILES["comment.mlir"] = SPEC + alone
    assert given("comment.mlir").dispatch.requested == given("a/mine.mlir").dispatch.requested.replace(
        named(given("a/mine.mlir").tuning.file), named(given("comment.mlir").tuning.file)
    )
    FILES["quoted.mlir"] = f'module attributes {{url = "a//b"}} {{ }}\n{alone[4:]}'
    assert "distribution = [1]" in given("quoted.mlir").dispatch.requested
    FILES["comment.mlir"] = alone
    with pytest.raises(SpecError, match="cannot be this"):
        given("comment.mlir")


@pytest.mark.parametrize(
    ("release", "readers"),
    [((3, 10), ["rocm", "cuda"]), ((3, 11), ["llvm-cpu", "rocm"]), (NEWEST.release, ["llvm-cpu", "rocm"])],
)
def test_spec_that_no_pipeline_reads_is_a_skip_with_the_tuning_that_is_read(release, readers):
    tuning, syntax = given("a/mine.mlir").tuning, Release(release)
    reasons = {target.backend: tuning.inexpressible(syntax, target) for target in TARGETS.values()}
    assert [backend for backend, reason in reasons.items() if reason is None] == sorted(
        readers, key=list(reasons).index
    )
    assert (
        reasons["vmvx"]
        == f"{syntax} reads no tuning spec for vmvx; it reads a library: transform_library:FILE, with @__kernel_config"
    )
    library = given("a/mine.mlir", "transform_library").tuning
    assert all(library.inexpressible(syntax, target) is None for target in TARGETS.values())


@pytest.mark.iree
@pytest.mark.parametrize("target", ["llvm-cpu-x86-64-v3", "vmvx", "vulkan", "metal", "cuda-sm_80", "rocm-gfx942"])
def test_a_tuning_spec_is_read_by_targets_that_do_not_skip_it_and_a_library_by_all(target, tmp_path):
    # GPU targets cannot compile a file for CPUs, but the error shows whether the compiler read the file.
    FILES["any.mlir"] = SPEC.replace('["linalg.matmul"]', '["linalg.matmul", "linalg.generic"]')
    FILES["any-library.mlir"] = FILES["any.mlir"].replace("@main", "@__kernel_config")
    workspace = Workspace(tmp_path, {})
    for family, file in (("tuning_spec", "any.mlir"), ("transform_library", "any-library.mlir")):
        case = case_with(tuning=f"{family}:{file}", target=target)
        skipped = case.tuning.inexpressible(NEWEST, case.target)
        assert ("matched no op" in (workspace.executor.compile(case).reason or "")) == bool(skipped)


@pytest.mark.iree
def test_spec_for_another_op_with_the_compiler_s_own_choice_is_a_failure(tmp_path):
    workspace, case = Workspace(tmp_path, {}), case_with(tuning="default", target="llvm-cpu-x86-64-v3")
    dump = workspace.store.checked(workspace.executor.compile(case).outputs["configurations"]).read_text()
    (chosen,) = [
        c for executable in configurations.parse(dump).executables for op, c in executable.configurations if "mat" in op
    ]
    FILES["same.mlir"] = SPEC.replace(SPEC[SPEC.index("distribution") : SPEC.index(">,")], chosen)
    FILES["conv.mlir"] = FILES["same.mlir"].replace("linalg.matmul", "linalg.conv_2d_nhwc_hwcf")
    right, wrong = (
        workspace.executor.compile(case_with(tuning=f"tuning_spec:{name}.mlir", target="llvm-cpu-x86-64-v3"))
        for name in ("same", "conv")
    )
    assert right.ok, right.reason
    assert "matched no op; the compiler's own choice, the same as in the file" in wrong.reason


@pytest.mark.iree
def test_given_tunings_are_applied_verified_and_repeated_and_one_that_matches_nothing_is_a_failure(tmp_path):
    project = Project.make(tmp_path / "p")
    (project.root / "specs/mine.mlir").write_text(SPEC)
    (project.root / "specs/library.mlir").write_text(LIBRARY)
    (project.root / "specs/user.mlir").write_text(
        "func.func @f(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>, %c: tensor<16x16xf32>) -> tensor<16x16xf32> {\n"
        "  %r = linalg.matmul ins(%a, %b : tensor<16x16xf32>, tensor<16x16xf32>) outs(%c : tensor<16x16xf32>)"
        " -> tensor<16x16xf32>\n  return %r : tensor<16x16xf32>\n}\n"
    )
    mine, library = (
        {"family": f, "file": n} for f, n in (("tuning_spec", "mine.mlir"), ("transform_library", "library.mlir"))
    )
    project.add(sweep(tuning=[mine, library]) + sweep(operation="vecmat", tuning=mine).replace("m = 16\n", ""))
    project.add(
        '[[sweep]]\noperation = "module"\nfile = "user.mlir"\nthreads = 1\ntuning = "tuning_spec:mine.mlir"\n', "c.toml"
    )
    outcome = project.doit("protocol=fast")
    assert outcome.code == 1, str(outcome)
    rows = {row["case"].rsplit("_", 1)[0]: row for row in project.rows()}
    wrong = rows.pop("vecmat_16x16_f32t_f32t_f32t_tuning_spec_mine")
    assert (wrong["status"], "matched no op; the compiler's own choice: " in wrong["reason"]) == ("failed", True)
    assert set(rows) == {
        *(f"matmul_16x16x16_f32t_f32t_f32t_{name}" for name in ("tuning_spec_mine", "transform_library_library")),
        "module_user_f_tuning_spec_mine",
    }
    assert all(
        GIVES in row["requested_configuration"] and GIVES in row["applied_configuration"] for row in rows.values()
    )
    assert {row["verification"] for row in rows.values()} == {"within bound", "not compared"}
    assert len({row["code_digest"] for row in rows.values()}) >= 1
    folder = project.root / "build" / rows["module_user_f_tuning_spec_mine"]["case"]
    assert SPEC in [path.read_text() for path in folder.glob("*.mlir")]
    import subprocess

    again = subprocess.run([folder / "repro.sh", "compile"], capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (0, "same bytes\n"), again.stderr
