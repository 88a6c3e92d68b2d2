from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatchflow.tunings import TUNINGS

SMALL = st.lists(st.integers(1, 40), min_size=1, max_size=3)


@settings(max_examples=40)
@given(m=SMALL, n=SMALL, k=SMALL, threads=st.lists(st.integers(1, 9), min_size=1, max_size=2))
def test_cases_are_the_product_of_the_axes_each_once(plan_of, m, n, k, threads):
    found = plan_of(f'[[sweep]]\noperation = "matmul"\nm = {m}\nn = {n}\nk = {k}\nthreads = {threads}\n')
    wanted = set(product(m, n, k, threads))
    assert {(*case.operation.sizes, case.threads) for case in found.cases} == wanted
    assert len(found.cases) == len(wanted) == len({case.name for case in found.cases})


def test_a_shape_replaces_the_dims(plan_of):
    by_shape = plan_of('[[sweep]]\noperation = "matmul"\nshape = ["64x32x16", "1x2x3"]\n')
    assert [case.operation.sizes for case in by_shape.cases] == [(64, 32, 16), (1, 2, 3)]


TWO = """
[[sweep]]
operation = "matmul"
m = [8, 16]
n = 8
k = 8
tags = ["small", "both"]

[[sweep]]
operation = "matmul"
m = [16, 32]
n = 8
k = 8
tags = ["both", "large"]
"""


def test_case_of_two_sweeps_appears_once_with_the_tags_of_both(plan_of):
    found = plan_of(TWO)
    assert {case.operation.sizes[0]: found.tags[case] for case in found.cases} == {
        8: ("small", "both"),
        16: ("small", "both", "large"),
        32: ("both", "large"),
    }


@pytest.mark.parametrize(
    ("tags", "sizes"), [(("small",), [8, 16]), (("large",), [16, 32]), (("large", "small"), [8, 16, 32]), (("x",), [])]
)
def test_tags_select_the_sweeps_that_have_one_of_them(plan_of, tags, sizes):
    assert [case.operation.sizes[0] for case in plan_of(TWO, tags=tags).cases] == sizes


@pytest.mark.parametrize(
    ("tags", "sizes"),
    [(("net:bert",), [8]), (("net:*",), [8, 16]), (("*:[br]ert", "small"), [8, 32]), (("net",), []), (("[n]",), [64])],
)
def test_tags_of_a_key_and_a_value_are_selected_by_patterns(plan_of, tags, sizes):
    marked = {8: "net:bert", 16: "net:resnet50", 32: "small", 64: "[n]"}
    text = "".join(
        f'[[sweep]]\noperation = "matmul"\nm = {m}\nn = 8\nk = 8\ntags = "{tag}"\n' for m, tag in marked.items()
    )
    assert [case.operation.sizes[0] for case in plan_of(text, tags=tags).cases] == sizes


LINES = '[[sweep]]\noperation = "matmul"\nm = [8, 16]\nn = [8, 16]\nk = 8\ntuning = ["default", "data_tiling"]\n'


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ("", 8),
        ('include = "matmul_8x*"', 4),
        ('include = ["matmul_8x*", "*data_tiling*"]', 6),
        ('exclude = "*default*"', 4),
        ('include = "matmul_8x*"\nexclude = ["*default*"]', 2),
        ('exclude = "*"', 0),
    ],
)
def test_include_and_exclude_are_patterns_over_names(plan_of, filters, count):
    found = plan_of(LINES + filters)
    assert len(found.cases) == count
    assert found.skips == ()
    assert any("leave no case" in note for note in found.notes) == (not count)


def test_an_impossible_combination_is_a_skip_with_name_reason_and_place(plan_of):
    found = plan_of(
        '[[sweep]]\noperation = "matmul"\nm = 8\nn = 8\nk = 8\ndtype = ["f16", "f32"]\n'
        'tuning = ["default", "double_tiling_64x64_4x16x4"]\ntarget = "vmvx"\n'
    )
    assert [case.name for case in found.cases] == [
        "matmul_8x8x8_f16t_f16t_f16t_default@vmvx",  # a known failure is planned, and not skipped
        "matmul_8x8x8_f32t_f32t_f32t_default@vmvx",
    ]
    reasons = {skip.name: skip.reason for skip in found.skips}
    assert set(reasons) == {
        "matmul_8x8x8_f16t_f16t_f16t_double_tiling_64x64_4x16x4@vmvx",
        "matmul_8x8x8_f32t_f32t_f32t_double_tiling_64x64_4x16x4@vmvx",
    }
    tiled = reasons["matmul_8x8x8_f32t_f32t_f32t_double_tiling_64x64_4x16x4@vmvx"]
    assert tiled == "double tiling is a configuration of llvm-cpu, not of vmvx"
    assert {skip.place for skip in found.skips} == {"specs/t.toml:1, sweep[0]"}


@pytest.mark.parametrize(
    ("operation", "shape", "tuning"),
    [
        ("quantized_matmul", "8x8x8", "double_tiling_64x64_4x16x4"),
        ("quantized_conv2d", "1x8x8x4x4x3x3", "conv_tile_and_decompose"),
    ],
)
def test_tiles_for_an_operation_without_tiled_ops_are_a_skip(plan_of, operation, shape, tuning):
    found = plan_of(f'[[sweep]]\noperation = "{operation}"\nshape = "{shape}"\ntuning = "{tuning}"\n')
    assert {skip.reason for skip in found.skips} == {f"no op of {operation} takes tiles"}


def test_skip_of_two_sweeps_appears_once(plan_of):
    one = '[[sweep]]\noperation = "softmax"\nshape = "8x8"\ntuning = "data_tiling"\n'
    assert len(plan_of(one + one).skips) == 1


def test_note_of_an_axis_names_the_sweep_and_the_dim(plan_of):
    found = plan_of('[[sweep]]\noperation = "matmul"\nm = 8\nn = "64:100:32"\nk = 8\n')
    assert found.notes == ("specs/t.toml:1, sweep[0].n: '64:100:32' ends at 96; no step reaches 100",)


def test_the_name_of_a_family_selects_all_its_shipped_tunings(plan_of):
    found = plan_of('[[sweep]]\noperation = "matmul"\nm = 512\nn = 512\nk = 512\ntuning = "double_tiling"\n')
    assert {case.tuning for case in found.cases} == set(TUNINGS["double_tiling"].expand({}))


def test_plan_is_the_same_each_time(plan_of):
    assert plan_of(TWO) == plan_of(TWO)
    assert plan_of(TWO).cases == plan_of(TWO).cases


def test_a_case_of_two_sweeps_is_noisy_above_the_smaller_of_their_limits(plan_of):
    sweeps = "".join(
        f'[[sweep]]\noperation = "matmul"\nm = [4, {m}]\nn = 4\nk = 4\n{noisy}\n'
        for m, noisy in ((5, 'noisy = "2%"'), (6, 'noisy = "3%"'), (7, ""))
    )
    plan = plan_of(sweeps)
    assert {case.operation.sizes[0]: limit for case, limit in plan.noisy.items()} == {4: 0.02, 5: 0.02, 6: 0.03}
