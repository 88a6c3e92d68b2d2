"""Entries of lists of known failures are parsed, matched with cases, and printed by commands."""

from __future__ import annotations

import re
from pathlib import PurePath

import pytest
from support.known_cases import made
from support.project import Project, only, sweep

from dispatchflow.cases import known_failures
from dispatchflow.cases.known_failures import KnownFailures, version_of
from dispatchflow.errors import SpecError

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
def test_a_wrong_entry_is_an_error_with_its_place(words: dict[str, str], says: str) -> None:
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
        (">=3.11", "", True),  # a build tree without a version counts as newer
    ],
)
def test_an_entry_holds_for_the_releases_of_its_range(toolchain: str, version: str, holds: bool) -> None:
    assert parsed(toolchain=f'"{toolchain}"').holds_for(version_of(version)) == holds


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
        ("{ k = '!%3' }", True),
        ("{ k = '!%4' }", False),
        ("{ accumulate = 'no', layout = 't?' }", True),
        ("{ padding = '*' }", False),  # a product has none
    ],
)
def test_match_is_patterns_over_words(match: str, covered: bool) -> None:
    case = made("matmul", "4x8x16", "f16_f32", "default", "vmvx")
    assert bool(KnownFailures([parsed(match=match)], "3.13.0", lambda log: "").covering(case)) == covered


TILED = "conv_tile_and_decompose_0x8x32x32_1x1x8x32_1x1x8"


@pytest.mark.parametrize(
    ("words", "covered"),
    [
        (("matmul", "64x48x2048", "f32", "split_k_4"), False),
        (("matmul", "64x48x42", "f32", "split_k_4"), True),
        (("matmul", "64x48x2048", "f32", "split_k_4", {"dynamic": "k"}), True),
        (("depthwise_conv2d", "2x18x18x32x3x3", "f32", TILED, {"layout": "nchw_chw"}), False),
        (("depthwise_conv2d", "2x3x18x32x3x3", "f32", TILED, {"layout": "nchw_chw"}), True),  # one row of results
        (("depthwise_conv2d", "1x18x18x32x3x3", "f32", TILED, {"layout": "nchw_chw"}), True),
        (("conv2d", "1x16x16x16x16x1x1", "f32", "data_tiling"), False),
        (("conv2d", "1x16x16x16x16x1x1", "f32", "data_tiling", {"stride": 2}), True),
        (("conv2d", "1x16x16x16x16x3x1", "f32", "data_tiling"), True),
    ],
)
def test_shipped_entries_cover_no_case_that_compiles_as_requested(words, covered: bool) -> None:
    # `covered` is whether the case fails with IREE 3.13 as `configuration ignored`.
    options = words[-1] if isinstance(words[-1], dict) else {}
    case = made(*words[:4], "llvm-cpu", **options)
    known = KnownFailures(known_failures.shipped(), "3.13.0", lambda log: "")
    ignored = [entry for entry in known.covering(case) if "ignored" in entry.message.pattern]
    assert bool(ignored) == covered


@pytest.mark.parametrize(("patterns", "covered"), [("avx512f", True), ("avx512*", True), ("sve", False)])
def test_match_is_patterns_over_features_of_the_targets_cpu(patterns: str, covered: bool) -> None:
    entry = parsed(match=f"{{ operation = 'matmul', features = '{patterns}' }}")
    cpu, gpu = (made("matmul", "4x8x16", "f16_f32", "default", target) for target in ("llvm-cpu", "cuda-sm_80"))

    def features(target):
        return ["avx2", "avx512f"] if target.backend == "llvm-cpu" else []

    known = KnownFailures([entry], "3.13.0", lambda log: "", features)
    assert bool(known.covering(cpu)) == covered
    assert not known.covering(gpu)
    assert not KnownFailures([entry], "3.13.0", lambda log: "").covering(cpu)


@pytest.mark.iree
def test_a_failure_known_for_one_kind_of_cpu_is_not_known_for_another(tmp_path) -> None:
    # Rows of i4 fail to compile for AVX-512, and compile for AVX2.
    words = ("m=33", "n=48", "k=128", "dtype=i4", "threads=1", "compile")
    project = Project.make(tmp_path / "p")
    old = project.doit("target=llvm-cpu-x86-64-v4", *words)
    assert "1 known failure" in old.out, str(old)
    new = project.doit("target=llvm-cpu-x86-64-v3", *words)
    assert "1 case: 1 compiled in " in new.out, str(new)
    assert "1 case: 1 as known\n  rows of i4" in project.doit("target=llvm-cpu-x86-64-v4", *words[:-1], "known").out
    assert "rows of i4" not in project.doit("target=llvm-cpu-x86-64-v3", *words[:-1], "known").out


FAILING = "matmul_8x8x8_f16t_f16t_f16t_default@vmvx-1t"
OWN = """
[[known_failure]]
match = { operation = "matmul", dtype = "f32,*" }
stage = "compile"
message = "never said"
reason = "it was slow, https://example.org/1"
"""


@pytest.mark.iree
def test_a_known_failure_is_tried_once_and_does_not_fail_the_run(tmp_path) -> None:
    project = Project.make(tmp_path / "p", sweep(m=8, n=8, k=8, dtype=["f16", "f32"], target="vmvx", threads=1) + OWN)

    first = project.doit("verify")
    assert first.code == 0, str(first)
    assert f"compile {FAILING} known failure: compile failed: failed to legalize operation" in first.out
    assert f"known failure: vmvx has no f16 arithmetic ({FAILING})" in first.out
    assert "no longer fails: it was slow, https://example.org/1 (matmul_8x8x8_f32" in first.out
    assert ": 1 known failure; " in first.out

    made, again = project.made_by("verify")
    assert made == only()
    assert "1 known failure) in " in again.out
    assert project.doit("known_failures=strict", "verify").code == 1
    off = project.doit("known_failures=off", "verify")
    assert (off.code, "1 failed in an earlier run) in " in off.out) == (1, True), off

    planned = project.doit("plan", "verify").out
    assert "1: known failure: vmvx has no f16 arithmetic" in planned
    assert (
        "known failure: vmvx has no f16 arithmetic (known_failures.toml:"
        in project.doit("explain", f"compile:{FAILING}").out
    )
    listed = project.doit("known").out
    assert "1 case: 1 as known\n  vmvx has no f16 arithmetic\n" in listed
    assert "1 case: 1 passes\n  it was slow, https://example.org/1\n" in listed
    assert listed.splitlines()[-1].endswith("entries; 2 cases selected") and "\n0 cases\n" in listed
    few = project.doit("known", "target=vmvx").out
    assert few.startswith(listed.partition("\n0 cases\n")[0])
    assert re.fullmatch(r"\d+ entries, \d+ of them left out because .*; 2 cases selected", few.splitlines()[-1])
    assert "0 cases" not in few


@pytest.mark.iree
def test_a_row_names_its_known_failure(tmp_path) -> None:
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
def test_a_failure_with_another_message_is_not_known(words: dict[str, str], code: int, tmp_path) -> None:
    # The entry's message begins with the tool's name, which is in the log but not in the reason.
    entry = text(**{"message": '"iree-compile: for the --iree-opt-level option"'} | words)
    spec = sweep(m=8, n=8, k=8, flags="--iree-opt-level=O9")
    project = Project.make(tmp_path / "p", spec + entry)
    assert project.doit("verify").code == code


def test_a_wrong_entry_in_a_spec_stops_the_run(tmp_path) -> None:
    project = Project.make(tmp_path / "p", sweep(m=8, n=8, k=8) + text(stage='"compil"'))
    outcome = project.doit("list")
    assert outcome.code == 2
    assert "Did you mean 'compile'?" in outcome.err
