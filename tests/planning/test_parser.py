import time
from pathlib import PurePath

import pytest

from dispatchflow.errors import SpecError
from dispatchflow.planning import parser
from dispatchflow.planning.location import COMMAND_LINE

FIRST = '[[sweep]]\noperation = "matmul"\nm = 1\nn = 1\nk = 1\n\n'
"""The text of a valid sweep. It has six lines, so a sweep that is added after it begins on line 7."""


def refused(text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        parser.parse(text, PurePath("specs/t.toml"), {})
    return caught.value


def table(**words: str) -> str:
    lines = {"operation": '"matmul"', "m": "64", "n": "64", "k": "64"} | words
    return "[[sweep]]\n" + "".join(f"{name} = {value}\n" for name, value in lines.items() if value)


@pytest.mark.parametrize(
    ("place", "words", "says"),
    [
        (".operation", {"operation": '"matmull"'}, ["unknown operation 'matmull'", "matmul", "Did you mean 'matmul'?"]),
        (".operation", {"operation": ""}, ["names no operation", "matmul"]),
        (".operation", {"operation": "[]"}, ["names no operation", "matmul"]),
        (
            ".operation",
            {"operation": '["matmul", "matmull"]'},
            ["unknown operation 'matmull'", "Did you mean 'matmul'?"],
        ),
        (".operation", {"operation": '"rms_norm"'}, ['Write operation = "norm" kind = "rms".']),
        (".operation", {"operation": "3"}, ["unknown operation 3", "matmul"]),
        (".dtyp", {"dtyp": '"f32"'}, ["unknown word 'dtyp'", "dtype", "Did you mean 'dtype'?"]),
        (".dtype", {"dtype": '"f33"'}, ["no element type 'f33'", "f32", "f16,f16->f32"]),
        (".dtype", {"dtype": '"f32,f32->f16"'}, ["no element type 'f32,f32->f16'", "f32,f32->f32"]),
        (".dtype", {"dtype": "32"}, ["wrong type", "int", "str or list"]),
        (".layout", {"layout": '"tx"'}, ["unknown layout of matmul 'tx'", "tt, tn, nt, nn"]),
        (".tuning", {"tuning": '"defautl"'}, ["unknown tuning 'defautl'", "data_tiling", "Did you mean 'default'?"]),
        (".tuning", {"tuning": '"double_tiling_64x64_4x16"'}, ["unknown tuning", "double_tiling_64x64_4x16x4"]),
        (
            ".tuning",
            {"tuning": '"double_tiling_0x64_8x16x4"'},
            ["unknown tuning", "double_tiling_MxN_MxNxK", "above 0"],
        ),
        (".tuning", {"tuning": '"split_k_1"'}, ["unknown tuning", "split_k_SLICES: 2 or more"]),
        (".tuning", {"tuning": '{family = "double"}'}, ["unknown tuning family 'double'", "double_tiling"]),
        (".tuning", {"tuning": "{vector = [1, 1]}"}, ["unknown tuning family None", "double_tiling"]),
        (".tuning", {"tuning": '{family = "default", x = 1}'}, ["default cannot be this", "no parameters"]),
        (
            ".tuning",
            {"tuning": '{family = "double_tiling", vector = [4, 4]}'},
            ["'distribution' is missing", "= [m, n]"],
        ),
        (
            ".tuning",
            {"tuning": '{family = "double_tiling", distribution = [64, 64], vector = [4, 0], reduction = 1}'},
            ["vector = [4, 0]", "[m, n], positive integers"],
        ),
        (
            ".tuning",
            {"tuning": '{family = "double_tiling", distribution = [64, 64], vector = [4, 4], reduction = true}'},
            ["reduction = True", "k, positive integers"],
        ),
        (".target", {"target": '"cuda"'}, ["unknown target 'cuda'", "llvm-cpu, llvm-cpu-x86-64-v2", "'cuda-sm_80'?"]),
        (".threads", {"threads": "0"}, ["0 is not a number of threads", '1 … 4096, or "all"']),
        (".threads", {"threads": "-1"}, ["-1 is not a number of threads"]),
        (".threads", {"threads": '"many"'}, ["'many' is not a number of threads"]),
        (".threads", {"threads": "true"}, ["wrong type", "bool", "int or str"]),
        (".noisy", {"noisy": '"5"'}, ["noisy cannot be '5'", "a percentage such as 5%"]),
        (".noisy", {"noisy": "5"}, ["wrong type", "int", "str"]),
        (".tags", {"tags": "[1]"}, ["wrong type", "int", "str"]),
        (".m", {"m": "0"}, ["not a size", "size 0", "1 … 2147483647"]),
        (".k", {"k": "-8"}, ["not a size", "size -8", "1 … 2147483647"]),
        (".n", {"n": '"64:"'}, ["not a size", "'64:'", '"64:1024:64"']),
        (".n", {"n": "[]"}, ["not a size", "an empty list", "[64, 128]"]),
        (".n", {"n": "1.5"}, ["not a size", "1.5", "[64, 128]"]),
        (
            "",
            {"k": "", "n": ""},
            [
                "matmul needs a size for n, k",
                "m, n, k",
                "Add n = 512 (or several sizes: n = [512, 1024]) and k in the same way.",
            ],
        ),
        (".shape", {"shape": '"1x1x1"'}, ["both 'shape' and dims", "m, n, k"]),
        (".shape", {"m": "", "n": "", "k": "", "shape": '"1x1"'}, ["'1x1' is not a shape", "mxnxk", "64x64x64"]),
        (".shape", {"m": "", "n": "", "k": "", "shape": '"1x0x1"'}, ["'1x0x1' is not a shape", "mxnxk"]),
        (".shape", {"m": "", "n": "", "k": "", "shape": '"1x1x2147483648"'}, ["is not a shape", "mxnxk"]),
    ],
)
def test_error_names_file_line_place_what_was_found_and_what_is_allowed(place, words, says):
    error = refused(FIRST + table(**words))
    assert str(error.facts["spec"]).startswith(f"specs/t.toml:7, sweep[1]{place}")
    for part in says:
        assert part in str(error)


def test_text_that_is_not_toml_is_refused_with_its_line():
    assert "specs/t.toml" in str(refused("\n\n[[sweep]\n"))
    assert "line 3" in str(refused("\n\n[[sweep]\n"))


@pytest.mark.parametrize("depth", [30, 100, 200, 400, 800, 100_000])
def test_a_spec_that_is_nested_too_deeply_is_refused(depth):
    for opening, closing in (("[", "]"), ("{a = ", "}")):
        assert refused(f"[[sweep]]\nm = {opening * depth}1{closing * depth}\n")
        assert "nested too deeply" in str(refused(f"[[sweep]]\nm = {opening * depth}")) or depth < 800


@pytest.mark.parametrize("text", ["[[sweeps]]\nm = 1\n", "m = 1\n", "[sweep]\nm = 1\n", "sweep = 3\n"])
def test_a_spec_has_only_tables_of_sweeps_at_the_top(text):
    error = refused("\n\n" + text)
    assert error.facts["spec"] == "specs/t.toml:3"
    assert error.facts["allowed"] == "[[sweep]] and [[known_failure]] tables"
    assert ("two brackets" in error.hint) == text.startswith(("[sweep]", "sweep ="))


@pytest.mark.parametrize("shape", ["[]", '""', '" "'])
def test_empty_shape_is_refused(plan_of, shape):
    with pytest.raises(SpecError):
        plan_of(table(m="", n="", k="", shape=shape))


@pytest.mark.parametrize("word", ["dtype", "tuning", "target", "threads"])
def test_empty_list_is_refused_as_an_empty_axis_is(plan_of, word):
    with pytest.raises(SpecError):
        plan_of(table(**{word: "[]"}))


def test_a_tuning_family_that_is_not_a_word_is_refused():
    refused(table(tuning='{family = ["default"]}'))


def test_tuning_name_with_a_zero_is_refused():
    refused(table(tuning='"double_tiling_64x64_4x16x4_cache_64x0"'))


@pytest.mark.parametrize(
    "axes",
    [
        {"m": '"1:1000"', "n": '"1:1000"', "k": '"1:1000"'},
        {"m": '"1:2147483647"', "n": '"1:2147483647"', "k": '"1:2147483647"'},
        {"m": '"1:2147483647"'},
    ],
)
def test_sweep_of_a_billion_cases_fails_at_once(plan_of, axes):
    began = time.thread_time()
    with pytest.raises(SpecError, match=r"a sweep of [\d,]+ cases") as caught:
        plan_of(table(**axes))
    assert time.thread_time() - began < 0.1
    assert caught.value.facts["spec"] == "specs/t.toml:1, sweep[0]"
    assert caught.value.facts["allowed"] == "1,000,000"
    assert " m" in caught.value.facts["axes"]


@pytest.mark.parametrize(
    ("written", "spelt"),
    [
        ('"f32"', ["f32,f32->f32"]),
        ('"f16,f16->f32"', ["f16,f16->f32"]),
        ('" f16 , f16 -> f32 "', ["f16,f16->f32"]),
        ('"f16,bf16"', ["f16,f16->f16", "bf16,bf16->f32"]),
        ('"f16;f16,f16->f32->f16"', ["f16,f16->f16", "f16,f16->f32->f16"]),
        ('["f32", "f32,f32->f32", "i8"]', ["f32,f32->f32", "i8,i8->i32"]),
        ('"f32,f32->f32->f32"', ["f32,f32->f32"]),
    ],
)
def test_element_types_are_words_or_spelt_out(written, spelt):
    (sweep,) = parser.parse(table(dtype=written), PurePath("t.toml"), {})
    assert [s.spelling for s in sweep.signatures] == spelt


def test_words_are_separated_by_commas_and_lists_alike(plan_of):
    as_list = plan_of(table(tuning='["default", "data_tiling"]', layout='["tt", "nn"]', threads='[1, "all"]'))
    as_text = plan_of(table(tuning='"default, data_tiling"', layout='"tt nn"', threads='"1,all"'))
    assert as_list == as_text
    assert len(as_list.cases) == 8


def test_override_replaces_the_word_in_every_sweep():
    sweeps = parser.parse(FIRST + table(dtype='"f32"'), PurePath("t.toml"), {"dtype": "f16"})
    assert [[s.spelling for s in sweep.signatures] for sweep in sweeps] == [["f16,f16->f16"]] * 2


def test_place_of_a_variable_is_the_command_line():
    with pytest.raises(SpecError) as caught:
        parser.sweep({"operation": "matmul", "m": "64:", "n": "1", "k": "1"}, COMMAND_LINE)
    assert caught.value.facts["spec"] == "m= on the command line"
    assert "write 64 or 64,128 or 64:1024:64 (ends" in str(caught.value)


def test_a_wrong_size_is_reported_before_missing_sizes():
    with pytest.raises(SpecError, match="not a size"):
        parser.sweep({"operation": "matmul", "m": "x"}, COMMAND_LINE)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ({"m": 1, "n": 1}, "Add k=512 (or several sizes: k=512,1024)."),
        (
            {},
            "Add m=512 (or several sizes: m=512,1024) and n, k in the same way, or shape=512x512x512.",
        ),
        ({"shape": "1x1"}, "Write shape=64x64x64."),
        ({"m": 1, "n": 1, "k": 1, "flags": "O2"}, "Write flags=--iree-opt-level=O2."),
    ],
)
def test_hints_about_variables_use_the_command_line_s_spelling(words, hint):
    with pytest.raises(SpecError) as caught:
        parser.sweep({"operation": "matmul", **words}, COMMAND_LINE)
    assert caught.value.hint == hint


def test_an_override_does_not_change_sweeps_of_other_operations():
    text = table() + '[[sweep]]\noperation = "pooling"\nshape = "tiny"\n'
    pooling = {"kind": "sum", "dtype": "f64"}
    first, second = parser.parse(text, PurePath("x.toml"), pooling | {"layout": "nhwc"}, only=["pooling"])
    assert (first.layouts, second.layouts, second.options["kind"]) == (("tt",), ("nhwc",), ("sum",))
    with pytest.raises(SpecError, match="unknown layout of matmul"):
        parser.parse(text, PurePath("x.toml"), {"layout": "nhwc"})


def test_operation_may_be_a_list_as_every_word_may():
    text = table(operation='["matmul", "batch_matmul, matmul"]', m="", n="", k="", shape='"aligned"')
    found = parser.parse(text, PurePath("x.toml"), {"epilogue": "bias"})
    assert [(one.operation.name, one.options["epilogue"], one.place) for one in found] == [
        ("matmul", ("bias",), "x.toml:1, sweep[0]"),
        ("batch_matmul", ("bias",), "x.toml:1, sweep[0]"),
    ]


@pytest.mark.parametrize(
    "word", ["provider", "target", "tuning", "dtype", "layout", "threads", "cache", "flags", "accumulate"]
)
def test_an_error_in_a_replaced_word_names_the_command_line(word):
    text = '[[sweep]]\noperation = "matmul"\nm = 1\nn = 1\nk = 1\n'
    with pytest.raises(SpecError) as caught:
        parser.parse(text, PurePath("a.toml"), {word: "bogus"})
    assert caught.value.facts["spec"] == f"{word}= on the command line"
    with pytest.raises(SpecError) as caught:
        parser.parse(f'{text}{word} = "bogus"\n', PurePath("a.toml"), {"tags": "other"})
    assert caught.value.facts["spec"] == f"a.toml:1, sweep[0].{word}"
