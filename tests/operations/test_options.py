"""Options of operations are read from specs and the command line, and appear in names and rows."""

from pathlib import PurePath

import pytest

from dispatchflow.errors import SpecError
from dispatchflow.operations import OPERATIONS
from dispatchflow.planning import parser
from dispatchflow.planning.inference import by_dims, by_shapes

MK = [name for name, cls in OPERATIONS.items() if cls.dims == ("m", "k") and cls.by_dims]
"""The operations that a command line may mean if it gives only the sizes m= and k=, and no operation."""

CONV = '[[sweep]]\noperation = "conv2d"\nshape = ["1x8x8x4x4x3x3"]\n'
MATMUL = '[[sweep]]\noperation = "matmul"\nshape = ["8x8x8"]\n'


def test_option_is_swept_and_shows_where_it_is_not_the_default(plan_of):
    found = plan_of(CONV + 'stride = [1, 2]\npadding = "0,1"\n')
    assert [case.operation.label.removeprefix("1x8x8x4x4x3x3_f32_f32_f32") for case in found.cases] == [
        *("", "_padding_1", "_stride_2", "_stride_2_padding_1")
    ]


def test_override_reaches_the_sweeps_that_know_the_word():
    first, second = parser.parse(CONV + MATMUL, PurePath("t.toml"), {"stride": "2", "dtype": "i8"})
    assert first.options["stride"] == (2,)
    assert second.options == {"accumulate": ("no",), "dynamic": ("no",), "epilogue": ("none",)}
    assert {s.spelling for sweep in (first, second) for s in sweep.signatures} == {"i8,i8->i32"}


@pytest.mark.parametrize(
    ("written", "says", "allowed"),
    [
        ("stride = 0", "stride of conv2d cannot be 0", "1 … 16"),
        ('stride = "two"', "stride of conv2d cannot be 'two'", "1 … 16"),
        ("stride = true", "stride of conv2d cannot be true", "1 … 16"),
        ("padding = 17", "padding of conv2d cannot be 17", "0 … 16"),
        ("stride = []", "stride of conv2d is empty", None),
        ('kind = "max"', "unknown word 'kind'", None),
    ],
)
def test_a_value_that_an_option_does_not_have_is_refused(plan_of, written, says, allowed):
    with pytest.raises(SpecError) as caught:
        plan_of(CONV + written + "\n")
    assert caught.value.problem == says
    assert allowed is None or str(caught.value.facts["allowed"]) == allowed
    assert "specs/t.toml:1, sweep[0]" in caught.value.facts["spec"]


@pytest.mark.parametrize("empty", ["[]", '""', '[""]', '" , "'])
@pytest.mark.parametrize("word", ["tags", "include", "exclude", "target"])
def test_an_empty_list_is_refused(plan_of, word, empty):
    with pytest.raises(SpecError, match=f"'{word}' is empty"):
        plan_of(f"{MATMUL}{word} = {empty}\n")


def test_true_and_false_of_toml_are_yes_and_no(plan_of):
    words = '[[sweep]]\noperation = "attention"\nshape = ["1x4x4x4x4"]\ncausal = [false, true]\nmask = true\n'
    chosen = [case.operation.chosen for case in plan_of(words).cases]
    assert chosen == [("yes", "no"), ("yes", "yes")]


def test_option_takes_numbers_below_zero_and_may_default_to_one_between(plan_of):
    words = 'operation = "quantized_matmul"\nshape = ["8x8x8"]\ninput_zp = [-3, "-128"]\nweight_zp = "0,7"\n'
    labels = [case.operation.label.removeprefix("8x8x8_i8t_i8t_i32t") for case in plan_of("[[sweep]]\n" + words).cases]
    assert labels == ["_input_zp_-3", "_input_zp_-3_weight_zp_7", "", "_weight_zp_7"]
    with pytest.raises(SpecError, match="input_zp of quantized_matmul cannot be '--3'"):
        plan_of("[[sweep]]\n" + words.replace("-128", "--3"))


def test_options_that_do_not_go_together_are_a_skip_with_the_case_s_name(plan_of):
    found = plan_of(CONV + "dilation = [1, 4]\n")
    assert len(found.cases) == 1
    (skip,) = found.skips
    assert skip.name == "conv2d_1x8x8x4x4x3x3_f32_f32_f32_dilation_4_default@llvm-cpu"
    assert skip.reason.startswith("a window of 3x3 with this dilation does not fit")


@pytest.mark.parametrize(
    ("dims", "words", "operation"),
    [
        ("mnk", {}, "matmul"),
        ("bmnk", {}, "batch_matmul"),
        ("mnk", {"weight_zp": "3"}, "quantized_matmul"),
        (("n", "h", "w", "c", "f", "kh", "kw"), {}, "conv2d"),
        (("n", "h", "w", "c", "f", "kh", "kw"), {"input_zp": "-3", "stride": "2"}, "quantized_conv2d"),
        ("mk", {"axis": "outer"}, "reduction"),
        ("b", {"mask": "yes"}, "attention"),
    ],
)
def test_dims_and_options_choose_the_operation_that_alone_has_them(dims, words, operation):
    assert by_dims(dict.fromkeys(dims, "8"), words) == operation


@pytest.mark.parametrize(
    ("dims", "says", "hint"),
    [
        ("mk", "several operations have these dims", f"Say which: operation={MK[0]}."),
        ("m", "no operation has just", "Give all dims of one of them."),
        ("mh", "no operation has these dims", "Give all dims of one of them."),
    ],
)
def test_dims_that_select_no_single_operation_are_an_error_with_a_hint(dims, says, hint):
    with pytest.raises(SpecError, match=says) as caught:
        by_dims(dict.fromkeys(dims, "8"), {})
    assert "reduction: m, k" in caught.value.facts["known"]
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("dims", "word", "operation", "having"),
    [
        ("mnk", "stride", "matmul", "conv2d: n, h"),
        ("mnk", "kind", "matmul", "pooling: n, h"),
        ("mk", "stride", MK[0], ""),
    ],
)
def test_an_option_that_the_operation_of_these_dims_does_not_have_is_reported(dims, word, operation, having):
    with pytest.raises(SpecError, match=f"{operation} has no word '{word}'") as caught:
        by_dims(dict.fromkeys(dims, "8"), {"epilogue": "bias", word: "2"} if operation == "matmul" else {word: "2"})
    assert having in caught.value.facts[f"{word} have"]
    assert "matmul: m, n, k" not in caught.value.facts[f"{word} have"]
    assert caught.value.hint == f"Leave {word}= out, or give the dims of another operation."


def test_dims_of_several_operations_select_the_usual_one():
    dims = {"m": "8", "n": "8", "k": "8"}
    assert by_dims(dims, {}) == "matmul"
    assert by_dims(dims, {"epilogue": "bias"}) == "matmul"
    assert by_dims(dims, {"slices": "2"}) == "matmul_splitk"
    assert by_dims({**dims, "l": "8"}, {}) == "chain"


def test_slices_that_do_not_divide_k_are_a_skip_that_says_so(plan_of):
    sweep = '[[sweep]]\noperation = "{}"\nshape = ["8x8x{}"]\n{}\n'
    tuned = plan_of(sweep.format("matmul", 6, 'tuning = [{ family = "split_k", slices = [2, 3, 4] }]'))
    # The tuning split_k sets a flag of the compiler, which accepts any number.
    assert [case.tuning.name for case in tuned.cases] == ["split_k_2", "split_k_3", "split_k_4"]
    written = plan_of(sweep.format("matmul_splitk", 6, "slices = [3, 4, 6]"))
    assert [case.operation.option("slices") for case in written.cases] == [3]
    assert [skip.reason for skip in written.skips] == [
        "k = 6 is not a multiple of 4 slices",
        "a slice of one term is not a product",
    ]


@pytest.mark.parametrize("slices", ["1", "0", "[]", "true", '"2"', "[4, 1]"])
def test_slices_are_integers_above_one(plan_of, slices):
    with pytest.raises(SpecError) as caught:
        plan_of(MATMUL + f'tuning = {{ family = "split_k", slices = {slices} }}\n')
    assert "takes slices = 4, or a list; integers above 1" in str(caught.value.facts["found"])


def test_a_cast_to_the_type_that_there_is_already_is_a_skip(plan_of):
    found = plan_of(MATMUL + 'dtype = "f32,f16_f32,i8"\nepilogue = "cast"\n')
    assert [case.operation.element_types for case in found.cases] == ["f16,f16->f32->f16", "i8,i8->i32->i8"]
    assert [case.operation.result().element.mlir for case in found.cases] == ["f16", "i8"]
    assert [skip.reason for skip in found.skips] == ["there is nothing to cast: result and operands are f32"]


@pytest.mark.parametrize(
    ("words", "operations"),
    [
        ({"kind": "max"}, ["elementwise", "pooling", "reduction"]),
        ({"kind": "max,sum"}, ["elementwise", "pooling", "reduction"]),
        ({"kind": "relu"}, ["elementwise"]),
        ({"kind": "max", "axis": "inner"}, ["reduction"]),
    ],
)
def test_a_shape_class_selects_only_operations_that_take_the_given_options(words, operations):
    assert list(by_shapes("tiny", words)) == operations


@pytest.mark.parametrize(
    ("words", "having", "lacking"),
    [
        ({"dtype": "f32"}, {"matmul", "norm", "softmax"}, {"quantized_matmul", "quantized_conv2d"}),
        ({"dtype": "f16_f32_f16"}, {"norm", "matmul"}, {"pooling", "reduction"}),
        ({"dtype": "f32,f16"}, {"matmul", "softmax", "norm"}, {"quantized_matmul"}),
        ({"dtype": "f16,f16->f32;i8, i8 -> i32"}, {"matmul", "quantized_matmul"}, {"norm"}),
        ({"layout": "tt"}, {"matmul"}, {"conv2d", "softmax"}),
        ({"layout": "nchw_fchw"}, {"conv2d"}, {"pooling", "matmul"}),
        ({"layout": "t", "dtype": "i8"}, {"reduction"}, {"softmax", "matmul"}),
    ],
)
def test_a_shape_class_selects_only_operations_that_have_the_types_and_layouts(words, having, lacking):
    found = set(by_shapes("tiny", words))
    assert having <= found
    assert not lacking & found


def test_dims_and_element_types_choose_the_operation_that_has_both():
    assert by_dims(dict.fromkeys("mnk", "8"), {"dtype": "f32"}) == "matmul"
    assert by_dims(dict.fromkeys("mk", "8"), {"dtype": "i8->i32"}) == "reduction"


def test_each_operation_gets_only_the_values_that_it_takes():
    found = by_shapes("tiny", {"dtype": "f32;f16,f16->f32", "layout": "nt,t"})
    assert found["matmul"] == {"shape": "tiny", "dtype": "f32;f16,f16->f32", "layout": "nt"}
    assert found["softmax"] == {"shape": "tiny", "dtype": "f32", "layout": "t"}
    assert by_shapes("1x2x3x4x5", {"mask": "no,yes"}) == {"attention": {"shape": "1x2x3x4x5", "mask": "no,yes"}}


@pytest.mark.parametrize("written", ["tiny", "8x8x8"])
@pytest.mark.parametrize(("word", "value"), [("kind", "banana"), ("dtype", "f99"), ("layout", "zz")])
def test_a_value_that_no_operation_takes_is_reported(written, word, value):
    with pytest.raises(SpecError, match=f"no operation has {word}={value}"):
        by_shapes(written, {word: value})
