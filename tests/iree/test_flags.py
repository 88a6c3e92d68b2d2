"""Extra compiler flags are checked, appear in the names of cases, and reach the compiler."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.project import Project, sweep

from dispatchflow.errors import SpecError
from dispatchflow.iree import command_lines, flags
from dispatchflow.mlir.functions import Declaration
from dispatchflow.planning import parser, plan

NAME = st.from_regex(r"(iree-)?[a-z][a-z0-9-]{0,9}", fullmatch=True)
FLAG = st.builds("--{}".format, NAME) | st.builds("--{}={}".format, NAME, st.text(max_size=12))
FLAGS = st.lists(FLAG, max_size=3).map(tuple)


@given(FLAGS, FLAGS)
def test_equal_labels_are_equal_flags(one, other):
    assert (flags.label(one) == flags.label(other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("--iree-a=b", "--iree-a-b"),
        ("--iree-a", "--a"),
        ("--iree-a=", "--iree-a"),
        ("--iree-a=b.c", "--iree-a=b-c"),
        ("--iree-a --iree-b", "--iree-a=+b"),
        ("--iree-a=b,c", "--iree-a=b+c"),
        ("--iree-a --iree-b", "--iree-b --iree-a"),
    ],
)
def test_flags_that_look_alike_have_labels_of_their_own(one, other):
    assert flags.label(flags.parse(one)) != flags.label(flags.parse(other))


@given(FLAGS)
def test_label_fits_a_file_name_and_a_command_line(given):
    assert set(flags.label(given)) <= set("+.-_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


@given(FLAGS)
def test_flags_printed_in_a_row_are_parsed_back_unchanged(given):
    try:
        parsed = flags.parse(flags.quoted(given))
    except ValueError:
        return  # one of these flags is not allowed
    assert parsed == given


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("-o x", "not a flag"),
        ("module.mlir", "not a flag"),
        ("@flags.txt", "not a flag"),
        ("-iree-opt-level=O2", "not a flag"),
        ("--iree-hal-target-device=cuda", "set by the target"),
        ("--iree-llvmcpu-target-cpu=generic", "set by the target"),
        ("--iree-llvmcpu-debug-symbols=true", "give equal code equal bytes"),
        ("--iree-llvmcpu-target-cpu-features=+avx", "decide the target"),
        ("--iree-hal-target-backends=vmvx", "decide the target"),
        ("--iree-hal-dump-executable-sources-to=x", "write other files"),
        ("--iree-codegen-tuning-spec-path=x.mlir", "tuning_spec"),
        ("--iree-codegen-transform-dialect-library=x.mlir", "write other files"),
        ("--output-format=vm-c", "write other files"),
        ("--iree-link-bitcode=x", "write other files"),
        ("--compile-to=flow", "end before"),
        ("--compile-from=stream", "end before"),
        ("--iree-hal-benchmark-dispatch-repeat-count=100", "run each dispatch more than once a call"),
        ("--iree-vm-emit-polyglot-zip=false", "write modules that dispatchflow does not read"),
        ("--iree-some-new-flag=/etc/passwd", "names a file"),
        ("--iree-opt-level='O2", "quotation"),
    ],
)
def test_flag_that_is_not_for_this_axis_is_refused_with_the_reason(plan_of, written, says):
    with pytest.raises(SpecError) as caught:
        plan_of(sweep(flags=["", written]))
    assert says in str(caught.value.facts["found"])
    assert caught.value.facts["spec"] == "specs/t.toml:1, sweep[0].flags"


def test_formed_modules_and_their_references_are_compiled_from_their_phase_on():
    formed = flags.parse("--iree-opt-level=O2 --compile-from=flow")
    assert flags.of_meaning(formed) == (flags.FORMED,)
    assert flags.with_formed(formed) == formed and flags.with_formed(()) == (flags.FORMED,)
    once = command_lines.phase_argv("iree-compile", formed, "hal", None, "module.vmfb")
    assert [word for word in once if word.startswith("--compile-from")] == ["--compile-from=hal"]


def test_flags_are_an_axis_and_show_in_names_where_there_are_some(plan_of):
    plan = plan_of(sweep(flags=["", "--iree-opt-level=O2", "--iree-opt-level=O3 --iree-opt-const-eval=false"]))
    assert [case.name.removeprefix("matmul_16x16x16_f32t_f32t_f32t_") for case in plan.cases] == [
        "default@llvm-cpu-1t",
        "default+opt-level.O2@llvm-cpu-1t",
        "default+opt-level.O3+opt-const-eval.false@llvm-cpu-1t",
    ]


@pytest.mark.parametrize(
    ("tuning", "flag", "skipped"),
    [
        ("data_tiling_ukernels_all", "--iree-llvmcpu-enable-ukernels=none", True),
        ("data_tiling_ukernels_all", "--iree-llvmcpu-enable-ukernels=all", True),
        ("data_tiling", "--iree-opt-level=O2 --iree-opt-data-tiling=false", True),
        ("split_k_4", "--iree-dispatch-creation-split-matmul-reduction=2", True),
        ("data_tiling", "--iree-llvmcpu-enable-ukernels=none", False),
        ("default", "--iree-opt-data-tiling", False),
    ],
)
def test_a_flag_that_the_tuning_itself_sets_is_skipped(plan_of, tuning, flag, skipped):
    plan = plan_of(sweep(tuning=tuning, flags=["", flag]))
    assert (len(plan.cases), len(plan.skips)) == (2 - skipped, skipped)
    if skipped:
        assert plan.skips[0].reason == f"{flag.split()[-1]} is set by {tuning}; another one after it would override it"


def test_flags_are_in_the_compile_key_behind_all_others(case_of, resolver_of):
    plain, tuned = case_of(tuning="data_tiling"), case_of(tuning="data_tiling", flags="--iree-opt-level=O2")
    resolver = resolver_of()
    assert resolver.flags(tuned) == (*resolver.flags(plain), "--iree-opt-level=O2")
    assert resolver.chain(tuned)["compile"].key != resolver.chain(plain)["compile"].key
    assert resolver.emission(tuned) == resolver.emission(plain)


def test_demotion_of_f64_takes_the_place_of_the_target_s(plan_of, case_of, resolver_of):
    wanted = "--iree-input-demote-f64-to-f32=true"
    plain, demoted = case_of(), case_of(flags=f"--iree-opt-level=O2 {wanted}")
    usual = resolver_of().flags(plain)
    replaced = tuple(wanted if flag.startswith("--iree-input-demote") else flag for flag in usual)
    assert usual != replaced
    assert resolver_of().flags(demoted) == (*replaced, "--iree-opt-level=O2")
    assert flags.behind(usual, ("--iree-input-demote-f64-to-f32=false",)) == usual
    assert demoted.name.endswith("+input-demote-f64-to-f32.true@llvm-cpu")


def test_a_reference_has_the_demotion_of_its_case_and_no_other_flag(resolver_of):
    wanted = "--iree-input-demote-f64-to-f32=true"
    words = {
        "operation": "module",
        "file": "m.mlir",
        "reference": "vmvx",
        "flags": ["", f"--iree-opt-level=O2 {wanted}"],
    }
    text = b"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    plain, demoted = plan.expand([parser.sweep(words, "here", lambda name: (name, text))]).cases
    of_reference = resolver_of().supplies.reference_flags
    replaced = tuple(
        wanted if flag.startswith("--iree-input-demote") else flag for flag in of_reference(plain.operation)
    )
    assert of_reference(demoted.operation) == replaced != of_reference(plain.operation)


@pytest.mark.parametrize(
    ("written", "demotes"),
    [
        ("", False),
        ("--iree-opt-level=O2", False),
        ("--iree-input-demote-f64-to-f32", True),
        ("--iree-input-demote-f64-to-f32=1", True),
        ("--iree-input-demote-f64-to-f32=true --iree-input-demote-f64-to-f32=false", False),
    ],
)
def test_the_last_value_of_a_flag_decides_whether_f64_is_demoted(written, demotes):
    assert flags.demotes(flags.parse(written)) is demotes


def test_a_demoted_declaration_has_no_f64():
    written = Declaration(("4x?xf64", "f64", "4xi64"), ("tensor<f64>", "2xcomplex<f64>"))
    assert written.demoted == Declaration(("4x?xf32", "f32", "4xi64"), ("tensor<f32>", "2xcomplex<f32>"))


@pytest.mark.iree
def test_flags_reach_the_compiler_and_one_that_it_does_not_know_is_a_failure(tmp_path):
    project = Project.make(tmp_path / "p")
    words = ("m=16", "n=16", "k=16", "threads=1", "protocol=fast")
    outcome = project.doit(*words, "flags=;--iree-opt-level=O1;--iree-opt-levl=O1;--iree-opt-level=O9", "compile:*")
    assert outcome.code == 1, str(outcome)
    unknown, value = "Unknown command line argument '--iree-opt-levl=O1'", "'O9' value not a valid optimization level"
    for name, says in (("opt-levl.O1", unknown), ("opt-level.O9", value)):
        line = next(line for line in outcome.out.splitlines() if f"default+{name}@llvm-cpu-1t FAILED" in line)
        assert says in line
    assert "4 cases: 2 failed; 1 emitted, 2 compiled in " in outcome.out


def test_switch_that_names_no_file_is_taken():
    assert flags.parse("--iree-llvmcpu-link-ukernel-bitcode=false") == ("--iree-llvmcpu-link-ukernel-bitcode=false",)


def test_the_hint_on_a_refused_flag_fits_the_reason():
    with pytest.raises(
        ValueError, match=r"--help may end before a module is written, which is not allowed in this axis$"
    ):
        flags.parse("--help")
    with pytest.raises(
        ValueError, match="may read or write other files, which is not allowed in this axis; for your own"
    ):
        flags.parse("--iree-hal-dump-executable-files-to=x")
