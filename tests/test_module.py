"""`operation = "module"`: a user's own MLIR file."""

import re
from pathlib import PurePath

import numpy as np
import pytest
from real import Project

from dispatchflow import given, module, plan, spec, verification
from dispatchflow.errors import SpecError, ToolError
from dispatchflow.inputs import dtype_of
from dispatchflow.keys import digest_of
from dispatchflow.location import COMMAND_LINE
from dispatchflow.module import Declaration, File, Input, Module

TEXT = """\
module @m {
  util.global private @state : tensor<4xf32>
  func.func @two(%arg0: tensor<4x8xf32> {iree.abi = "a -> , ("}, %arg1: i32, %arg2: tensor<?x8xbf16>) -> \
(tensor<4x8xf32> {a.b = "x"}, tensor<?x8xbf16>, i32) attributes {x = [1, 2]} {
    return %arg0 : tensor<4x8xf32>
  }
  func.func private @helper(%arg0: tensor<4xf32>) -> tensor<4xf32>
  func.func public @one(%arg0: !torch.vtensor<[2,?],si64>, %arg1: !torch.vtensor<[],f32>) -> !torch.vtensor<[2],ui8> {
  }
  util.func public @none() -> tensor<16xi1> {
  }
  func.func @"odd name"(%arg0: tensor<2x3xf8E4M3FN, #encoding>, %arg1: tensor<f32>, %arg2: !hal.buffer_view) {
  }
}
"""


def test_public_functions_are_found_in_any_dialect():
    assert module.functions(TEXT) == ["two", "one", "none", "odd name"]


WRITTEN = """\
// func.func @comment() {
#a = #x.y<{z = "func.func @string() {"}>
module @outer attributes {a.b = {c = "}"}} {
  module @inner {
    func.func @helper() { return }
  }
  func.func private @mine() { return } func.func @main() {
    return
  } util.func public @second() { util.return }
  "func.func"() <{function_type = () -> (), sym_name = "third"}> ({
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{sym_visibility = "private", function_type = () -> (), sym_name = "hidden"}> ({
    "func.return"() : () -> ()
  }) : () -> ()
}
"""


def test_functions_are_found_wherever_they_stand_and_those_of_inner_modules_are_none():
    assert module.functions(WRITTEN) == ["main", "second", "third"]
    inner = "module @m {\n  module @inner {\n    func.func @helper() {\n    }\n  }\n  func.func @main() {\n  }\n}\n"
    assert list(module.declarations(inner)) == ["main"]


def test_a_named_function_is_taken_at_its_word_while_its_name_is_in_the_text():
    assert [case.operation.function for case in plan_of('file = "odd.mlir"\nfunction = "old"').cases] == ["old"]


def test_types_are_read_as_the_runtime_spells_them():
    assert module.declarations(TEXT) == {
        "two": Declaration(("4x8xf32", "i32", "?x8xbf16"), ("4x8xf32", "?x8xbf16", "i32")),
        "one": Declaration(("2x?xi64", "tensor<f32>"), ("2xi8",)),
        "none": Declaration((), ("16xi1",)),
        "odd name": Declaration(("2x3xf8E4M3FN", "tensor<f32>", "!hal.buffer_view"), ()),
    }
    found = module.declarations(TEXT)
    assert module.from_facts(module.to_facts(found)) == found


FILES = {
    "a.mlir": TEXT.encode(),
    "b.bin": bytes(128),
    "sub/a.mlir": b"func.func @two() {}",
    "odd.mlir": b'func.func @main() {} "func.func"() ({}) {sym_name = "old"} : () -> ()',
}


def read(name):
    if name not in FILES:
        raise FileNotFoundError(2, "No such file or directory", name)
    return f"/specs/{name}", FILES[name]


def plan_of(*sweeps):
    text = "\n".join(f'[[sweep]]\noperation = "module"\n{sweep}' for sweep in sweeps)
    return plan.expand(spec.parse(text, PurePath("specs/m.toml"), {"dtype": "f16"}, read))


def test_each_function_is_a_case_and_names_are_of_file_and_function():
    found = plan_of(
        'file = "a.mlir"\nthreads = [1, 2]\ntuning = ["default", "data_tiling"]\nfunction = ["two", "none"]'
    )
    assert [case.name for case in found.cases] == [
        f"module_a_{function}_{tuning}@llvm-cpu-{threads}t"
        for function in ("two", "none")
        for tuning in ("default", "data_tiling")
        for threads in (1, 2)
    ]
    everything = plan_of('file = "a.mlir"')
    assert [case.operation.function for case in everything.cases] == ["two", "one", "none", "odd name"]
    assert everything.cases[-1].name == "module_a_odd-name_default@llvm-cpu"


def test_a_tuning_that_is_written_on_an_operation_is_a_skip():
    found = plan_of('file = "a.mlir"\nfunction = "two"\ntuning = "double_tiling_64x64_4x16x4"')
    assert found.cases == ()
    assert "not into a user's module" in found.skips[0].reason


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "needs a file"),
        ('file = "no.mlir"', "No such file"),
        ('file = "a.mlir"\nfunction = "tow"', "Did you mean 'two'"),
        ('file = "odd.mlir"\nfunction = "mai"', "Did you mean 'main'"),
        ('file = "b.bin"', "no function is seen"),
        ('file = "a.mlir"\ninputs = ["4x8xq32"]', "'4x8xq32' is no type"),
        ('file = "a.mlir"\ninputs = ["4x8xf32=rondom"]', "Did you mean 'random'"),
        ('file = "a.mlir"\ninputs = ["4xi8=300 -1 7 7"]', "300 is no i8, -128 … 127"),
        ('file = "a.mlir"\ninputs = ["4xi8=1 -1 1.5 7"]', "1.5 is no i8"),
        ('file = "a.mlir"\ninputs = ["4xi8=nan"]', "nan is no i8"),
        ('file = "a.mlir"\ninputs = ["i32=99999999999"]', "99999999999 is no i32"),
        ('file = "a.mlir"\ninputs = ["index=1e19"]', "1e19 is no index"),
        ('file = "a.mlir"\ninputs = ["@b.bin"]', "Write 4x8xf32=@b.bin"),
        ('file = "a.mlir"\nexpected = ["no.npy"]', "No such file"),
        ('file = "a.mlir"\ninputs = "4x8xf32;5"', 'Several inputs are written inputs = ["4x8xf32", "5"].'),
        ('file = "a.mlir"\nrtol = nan', "rtol cannot be nan"),
        ('file = "a.mlir"\nrtol = inf', "rtol cannot be inf"),
        ('file = "a.mlir"\nrtol = -1', "rtol cannot be -1.0"),
        ('file = "a.mlir"\nreference = "vmxv"', "Did you mean 'vmvx'"),
        ('file = "a.mlir"\nreference = "vmvx"\nexpected = ["b.bin"]', "both"),
        ('file = "a.mlir"\nm = 4', "unknown word 'm'"),
    ],
)
def test_what_a_module_cannot_be_is_told_with_its_place(words, told):
    with pytest.raises(SpecError) as error:
        plan_of(words)
    assert told in str(error.value)
    assert "specs/m.toml:1" in str(error.value)


def test_one_word_is_a_list_of_one():
    one = plan_of('file = "a.mlir"\nfunction = "two"\ninputs = "3xi64=1 2 3"\nexpected = "b.bin"')
    several = plan_of('file = ["a.mlir"]\nfunction = ["two"]\ninputs = ["3xi64=1 2 3"]\nexpected = ["b.bin"]')
    assert one.cases == several.cases
    assert len(one.cases[0].operation.expected) == 1


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ({"file": "no.mlir"}, "Paths are relative to the current directory."),
        ({"file": "a.mlir", "tuning": "tuning_spec:no.mlir"}, "Paths are relative to the current directory."),
        ({"file": "b.bin"}, "Name one: function=main."),
        ({"file": "a.mlir", "inputs": "4x8xf32,5"}, "Several inputs are written 'inputs=4x8xf32;5'."),
        ({"file": "a.mlir", "inputs": "4x8xf32=1,4x8xf32"}, "Several inputs are written 'inputs=4x8xf32;5'."),
        ({}, "Write file=my.mlir, relative to the current directory."),
    ],
)
def test_hints_for_the_command_line_are_spelt_as_there(words, hint):
    with pytest.raises(SpecError) as error:
        spec.sweep({"operation": "module", **words}, COMMAND_LINE, read)
    assert error.value.hint == hint


def test_two_modules_of_one_name_are_refused_and_a_title_helps():
    two = 'file = "{}"\nfunction = "two"'
    with pytest.raises(SpecError, match="two modules have this name"):
        plan_of(two.format("a.mlir"), two.format("sub/a.mlir"))
    with pytest.raises(SpecError, match="two modules have this name"):
        plan_of(two.format("a.mlir"), two.format("a.mlir") + '\ninputs = ["4x8xf32=1", "5", "3x8xbf16"]')
    with pytest.raises(SpecError, match="Name them in two sweeps"):
        plan_of('file = ["a.mlir", "sub/a.mlir"]\nfunction = "two"')
    assert len(plan_of(two.format("a.mlir"), two.format("sub/a.mlir") + '\nname = "b"').cases) == 2
    assert len(plan_of(two.format("a.mlir"), two.format("a.mlir")).cases) == 1


@pytest.mark.parametrize("element", module.ELEMENT_TYPES)
def test_infinity_nan_and_the_ends_of_a_range_are_given_as_they_are(element):
    words = {"f8E4M3FN": "nan 448", "i1": "0 1", "i8": "-128 127"}.get(element, "inf nan" if "f" in element else "0 -1")
    values = np.array([float(word) for word in words.split()])
    ((_, content),) = made([Input(None, words)], [f"2x{element}"])
    held = np.frombuffer(content, dtype_of(module.ELEMENT_TYPES[element])).astype("float64")
    assert np.array_equal(held, values, equal_nan=True)


def made(inputs, types, **fields):
    program = Module(File("f", digest_of(b"")), "t", "main", inputs and tuple(inputs), **fields)
    return given.arguments(program, types)


def test_recipes_literals_and_numbers_become_bytes():
    found = made([Input("2x2xf32", "0.5"), Input(None, "1 2 3"), Input(None, "7")], ["?x2xf32", "3xi16", "i32"])
    assert found == [
        ("2x2xf32", np.full(4, 0.5, "float32").tobytes()),
        ("3xi16", np.array([1, 2, 3], "int16").tobytes()),
        ("=7", b"7"),
    ]
    exact = made([Input("2xi64", "9007199254740993 -9223372036854775808"), Input("i64", "1e3")], ["2xi64", "i64"])
    assert exact == [("2xi64", np.array([2**53 + 1, -(2**63)], "int64").tobytes()), ("=1000", b"1000")]
    floats, integers, flags = made(None, ["64xf32", "64xi8", "64xi1"])
    values = np.frombuffer(floats[1], "float32")
    assert -1 <= values.min() < -0.5 < 0.5 < values.max() < 1
    assert len(set(np.frombuffer(integers[1], "int8"))) > 32
    assert set(flags[1]) == {0, 1}
    (small,) = made([Input(None, "integers")], ["64xf16"])
    assert set(np.frombuffer(small[1], "float16")) == set(range(-3, 4))


@pytest.mark.parametrize(
    ("inputs", "types", "told"),
    [
        ([Input("4xf32", "1")], ["4xf32", "4xf32"], "1 inputs are given; main takes 2"),
        ([Input("4xf32", "1")], ["5xf32"], "input 0 is 4xf32, the function takes 5xf32"),
        ([Input("4xf16", "1")], ["4xf32"], "takes 4xf32"),
        ([Input("4xf32", "1 2")], ["4xf32"], "2 numbers"),
        ([Input("4xi32", "1")], ["4xf32"], "input 0 is 4xi32, the function takes 4xf32"),
        ([Input("4xbf16", "1")], ["4xf16"], "input 0 is 4xbf16, the function takes 4xf16"),
        ([Input(None, "1 2.5")], ["2xi8"], "input 0: 2.5 is no i8"),
        ([Input(None, "-1")], ["2xi1"], "input 0: -1 is no i1, 0 … 1"),
        ([Input(None, "1 -70000")], ["2xf16"], "input 0: -70000 is no f16"),
        ([Input(None, "99999999999")], ["i32"], "input 0: 99999999999 is no i32"),
        ([Input(None, "5.7")], ["i32"], "input 0: 5.7 is no i32"),
        ([Input(None, "1e39")], ["f32"], "input 0: 1e39 is no f32"),
        ([Input("i64", "5")], ["i32"], "input 0 is i64, the function takes i32"),
        (None, ["?x4xf32"], "give its sizes"),
        (None, ["i32"], "give it"),
        (None, ["!hal.buffer_view"], "not known here"),
    ],
)
def test_inputs_that_do_not_fit_are_told(inputs, types, told):
    with pytest.raises(ToolError) as error:
        made(inputs, types)
    assert told in error.value.problem


def test_arrays_come_from_files_in_the_order_of_rows(tmp_path):
    array = np.asfortranarray(np.arange(6, dtype="float32").reshape(2, 3))
    np.save(tmp_path / "a.npy", array)
    file = File(str(tmp_path / "a.npy"), digest_of((tmp_path / "a.npy").read_bytes()))
    assert made([Input(None, None, file)], ["2x3xf32"]) == [("2x3xf32", np.arange(6, dtype="float32").tobytes())]
    with pytest.raises(ToolError, match="is 2x3xf32, the function takes 3x2xf32"):
        made([Input(None, None, file)], ["3x2xf32"])
    np.save(tmp_path / "one.npy", np.float32(5))
    one = File(str(tmp_path / "one.npy"), digest_of((tmp_path / "one.npy").read_bytes()))
    assert made([Input(None, None, one)], ["tensor<f32>"]) == [("f32", np.float32(5).tobytes())]
    with pytest.raises(ToolError, match="is 2x3xf32, the function takes 2x3xi32"):
        made([Input(None, None, file)], ["2x3xi32"])
    program = Module(file, "t", "main", expected=(file,))
    for results in (["i32", "2x3xf32"], ["i32", "?x3xf32"]):
        assert given.expected(program, results) == {1: np.arange(6, dtype="float32").tobytes()}
    for other in ("2x3xf64", "3x2xf32", "6xf32", "?x2xf32", "2x3xi32"):
        told = rf"holds float32 of shape \(2, 3\); the function gives {re.escape(other)}"
        with pytest.raises(ToolError, match=told):
            given.expected(program, [other])
    with pytest.raises(ToolError, match="main has 0 to compare: none; bare numbers are not compared"):
        given.expected(program, ["i32"])
    with pytest.raises(ToolError, match=r"1 expected results are given; main has 2 to compare: 4xf32, 4xf32$"):
        given.expected(program, ["4xf32", "4xf32"])
    (tmp_path / "a.npy").write_bytes(b"changed")
    with pytest.raises(OSError, match="was changed while"):
        given.expected(program, ["2x3xf32"])


def verdict(got, expected, dtype="float32"):
    """Of four elements."""
    arrays = (np.array(values, dtype).tobytes() for values in (got, expected))
    name = {"float32": "f32", "float64": "f64", "float16": "f16", "int32": "i32"}[dtype]
    return verification._compared_bytes(*arrays, f"{len(got)}x{name}", None)


@pytest.mark.filterwarnings("error")
def test_no_expected_number_makes_the_tolerance_infinite():
    inf = float("inf")
    assert verdict([inf, -inf, 1, 2], [inf, -inf, 1, 2]).word == "within bound"
    assert verdict([1, 2, 3, 4], [inf, inf, inf, inf]).wrong == 4
    assert verdict([inf, 1, 1, 1], [-inf, 1, 1, 1]).wrong == 1
    assert verdict([inf, 1, 1, 1], [65504, 1, 1, 1], "float16").wrong == 1  # what overflowed beside what just did not
    assert verdict([1, 2, 3, 4], [1e200, 2e200, 3e200, 4e200], "float64").wrong == 4
    assert verdict([1e200, 2e200], [1e200, 2e200 * (1 + 1e-12)], "float64").word == "within bound"


# --- the whole chain

SCALED = """\
// {comment}
func.func @scaled(%x: tensor<4x8xf32>, %n: i32) -> (tensor<4x8xf32>, i32) {{
  %c = arith.constant dense<{factor}> : tensor<4x8xf32>
  %0 = arith.mulf %x, %c : tensor<4x8xf32>
  return %0, %n : tensor<4x8xf32>, i32
}}
func.func @ramp() -> tensor<8xi32> {{
  %0 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : tensor<8xi32>
  %1 = arith.addi %0, %0 : tensor<8xi32>
  return %1 : tensor<8xi32>
}}
"""
DIALECTS = {
    "torch": """\
func.func @main(%x: !torch.vtensor<[4,8],f32>) -> !torch.vtensor<[4,8],f32> {
  %0 = torch.aten.relu %x : !torch.vtensor<[4,8],f32> -> !torch.vtensor<[4,8],f32>
  return %0 : !torch.vtensor<[4,8],f32>
}
""",
    "stablehlo": """\
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<4x8xf32>
  %0 = stablehlo.maximum %x, %c : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
""",
    "tosa": """\
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = "tosa.const"() <{values = dense<0.0> : tensor<4x8xf32>}> : () -> tensor<4x8xf32>
  %0 = tosa.maximum %x, %c : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
""",
}
SPEC = """
[[sweep]]
operation = "module"
file = "ir/scaled.mlir"
function = "scaled"
inputs = ["@ir/x.npy", "5"]
expected = "ir/y.npy"
threads = 1

[[sweep]]
operation = "module"
file = "ir/scaled.mlir"
function = "ramp"
reference = "vmvx"
threads = 1

[[sweep]]
operation = "module"
file = ["ir/torch.mlir", "ir/stablehlo.mlir", "ir/tosa.mlir"]
inputs = ["4x8xf32=@ir/x.bin"]
expected = ["ir/relu.bin"]
threads = 1
"""
X = np.arange(-16, 16, dtype="float32").reshape(4, 8)
NAMES = {
    f"module_{title}_default@llvm-cpu-1t"
    for title in ("scaled_scaled", "scaled_ramp", *(f"{d}_main" for d in DIALECTS))
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project.make(tmp_path_factory.mktemp("module"), SPEC)
    folder = project.root / "specs/ir"
    folder.mkdir()
    (folder / "scaled.mlir").write_text(SCALED.format(comment="one", factor=2.0))
    for name, text in DIALECTS.items():
        (folder / f"{name}.mlir").write_text(text)
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", X * 2)
    (folder / "x.bin").write_bytes(X.tobytes())
    (folder / "relu.bin").write_bytes(np.maximum(X, 0).tobytes())
    outcome = project.doit("profile", "protocol=fast")
    assert outcome.code == 0, outcome
    return project


@pytest.mark.iree
def test_modules_of_any_dialect_are_verified_and_measured(project):
    rows = {row["case"]: row for row in project.rows()}
    assert set(rows) == NAMES
    for name, row in rows.items():
        assert row["verification"] == ("equal" if "ramp" in name else "within bound"), row
        assert row["median_ns"] > 0
        assert (row["operation"], row["flops"], row["flops_per_s"], row["element_types"]) == (
            "module",
            None,
            None,
            None,
        )
    again = project.doit("profile", "protocol=fast")
    assert "5 cases: nothing made" in again.out


@pytest.mark.iree
def test_editing_the_file_redoes_only_it_and_a_comment_only_prints_it_again(project, tmp_path):
    copied = project.copy(tmp_path / "p")
    file = copied.root / "specs/ir/scaled.mlir"
    file.write_text(SCALED.format(comment="another comment", factor=2.0))
    outcome = copied.doit("profile", "protocol=fast")
    assert "5 cases: 1 emitted; " in outcome.out, outcome
    assert "compile" not in outcome.out
    file.write_text(SCALED.format(comment="another comment", factor=3.0))
    outcome = copied.doit("verify")
    assert outcome.code == 1
    assert "31 elements of result 0 are wrong; worst at [0, 0]: got -48.0, expected -32.0" in outcome.out
    assert "dialect" not in outcome.out
    assert not any(f"compile module_{name}" in outcome.out for name in DIALECTS)
    file.write_text(SCALED.format(comment="another comment", factor=2.0))
    assert "5 cases: nothing made" in copied.doit("profile", "protocol=fast").out


@pytest.mark.iree
def test_what_a_module_lacks_is_a_failure_of_its_case_alone(project, tmp_path):
    copied = project.copy(tmp_path / "p")
    folder = copied.root / "specs/ir"
    (folder / "broken.mlir").write_text("func.func @main() -> tensor<4xf32> { nonsense }")
    (folder / "dynamic.mlir").write_text(
        "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n"
        "  %0 = arith.addf %x, %x : tensor<?xf32>\n  return %0 : tensor<?xf32>\n}\n"
    )
    sweep = '[[sweep]]\noperation = "module"\nthreads = 1\n'
    copied.add(
        f'{sweep}file = ["ir/broken.mlir", "ir/dynamic.mlir"]\n'
        f'{sweep}file = "ir/dynamic.mlir"\nname = "sized"\ninputs = ["16xf32"]\nreference = "llvm-cpu"\n'
        f'{sweep}file = "ir/stablehlo.mlir"\nname = "unsure"\n'
        f'{sweep}file = "ir/empty.mlir"\nfunction = "main"\n'
        f'{sweep}file = "ir/stablehlo.mlir"\nname = "alone"\nreference = "metal"\n'
    )
    (folder / "empty.mlir").touch()
    outcome = copied.doit("profile:module_*", "protocol=fast")
    rows = {row["case"].split("_")[1]: row for row in copied.rows()}
    assert outcome.code == 1
    assert "reading broken.mlir failed: custom op 'nonsense' is unknown" in rows["broken"]["reason"]
    assert "give its sizes" in rows["dynamic"]["reason"]
    assert (rows["sized"]["verification"], rows["sized"]["reason"]) == ("within bound", rows["sized"]["reason"])
    assert rows["unsure"]["verification"] == "not compared"
    assert "only run, compared with nothing: module_unsure_main_default@llvm-cpu-1t" in outcome.out
    assert rows["empty"]["reason"] == "no public function 'main'; the file has none"
    assert {name for name, row in rows.items() if row["status"] == "failed"} == {"broken", "dynamic", "empty"}
    # Of its reference there is no device here: nothing ran, nothing failed, and nothing passes as compared.
    assert (rows["alone"]["status"], rows["alone"]["verification"]) == ("no device", "not compared")
    assert rows["alone"]["reason"].startswith("the reference, module on metal: ")
    again = copied.doit("profile", "protocol=fast")
    assert "nothing made" in again.out
    assert "3 failed" in again.out
    warned = copied.doit("profile:module_alone*", "protocol=fast", "verify=warn")
    assert (warned.code, copied.rows()[-1]["verification"]) == (0, "not compared"), warned
    assert copied.rows()[-1]["median_ns"] > 0


@pytest.mark.iree
def test_a_module_is_named_on_the_command_line_and_repeats_by_hand(project, tmp_path):
    copied = project.copy(tmp_path / "p")
    words = ("file=specs/ir/scaled.mlir", "function=scaled", "inputs=4x8xf32=1;7", "reference=vmvx", "threads=1")
    outcome = copied.doit(*words, "verify")
    assert outcome.code == 0, outcome
    assert "1 case: " in outcome.out
    script = copied.root / "build/module_scaled_scaled_default@llvm-cpu-1t/repro.sh"
    import subprocess

    assert "same bytes" in subprocess.run([script, "compile"], capture_output=True, text=True, check=True).stdout
    subprocess.run([script, "run"], check=True, capture_output=True)
    assert np.array_equal(np.fromfile(script.parent / "again_0.bin", "float32"), np.full(32, 2.0, "float32"))


PAIR = """\
func.func @twice(%x: tensor<?x8xf32>, %n: i32) -> (tensor<?x8xf32>, i32) {
  %zero = arith.constant 0 : i32
  %positive = arith.cmpi sgt, %n, %zero : i32
  cf.assert %positive, "n is to be positive"
  %0 = arith.addf %x, %x : tensor<?x8xf32>
  return %0, %n : tensor<?x8xf32>, i32
}
func.func @number(%n: i32) -> i32 {
  return %n : i32
}
"""


@pytest.mark.iree
def test_results_are_told_apart_whatever_their_size_and_their_number(tmp_path):
    project = Project.make(tmp_path)
    (tmp_path / "pair.mlir").write_text(PAIR)
    for name, array in {"x": X, "y": X * 2, "flat": X.ravel() * 2, "inf": np.full_like(X, np.inf)}.items():
        np.save(tmp_path / f"{name}.npy", array)

    def verify(*words):
        return project.doit("verify", "file=pair.mlir", "threads=1", *words)

    def of(n, expected):
        return verify("function=twice", f"inputs=@x.npy;{n}", f"expected={expected}.npy", "rtol=1e-3", "name=n")

    assert of(5, "y").code == 0
    assert "32 elements of result 0 are wrong" in of(5, "inf").out
    assert "holds float32 of shape (32,); the function gives ?x8xf32" in of(5, "flat").out
    assert "run failed: FAILED_PRECONDITION; n is to be positive\n" in of(-1, "y").out
    assert verify("function=twice", "inputs=0x8xf32;5", "reference=vmvx").code == 0
    assert verify("function=number", "inputs=5", "reference=vmvx").code == 0
    of_empty, of_number = project.query("select facts from record where stage = 'verify' order by id")[-2:]
    assert '"verification": "equal"' in of_empty[0]
    assert '"verification": "not compared"' in of_number[0]


CONFIGURED = """\
// compilation_info = #iree_cpu.lowering_config<distribution = [1, 1, 1]> is only a comment
#config = #iree_cpu.lowering_config<distribution = [16, 16, 0], vector_common_parallel = [4, 16, 0], \
vector_reduction = [0, 0, 2]>
#translation = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>>
#compilation = #iree_codegen.compilation_info<lowering_config = #config, translation_info = #translation>
func.func @main(%a: tensor<32x32xf32>, %b: tensor<32x32xf32>) -> tensor<32x32xf32> {{
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x32xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<32x32xf32>) -> tensor<32x32xf32>
  %r = linalg.matmul {{{word} = #compilation}} ins(%a, %b : tensor<32x32xf32>, tensor<32x32xf32>)
    outs(%f : tensor<32x32xf32>) -> tensor<32x32xf32>
  return %r : tensor<32x32xf32>
}}
"""


@pytest.mark.iree
def test_a_configuration_of_the_module_s_own_must_be_applied(tmp_path):
    project = Project.make(tmp_path, "")
    (tmp_path / "asked.mlir").write_text(CONFIGURED.format(word="compilation_info"))
    (tmp_path / "misspelt.mlir").write_text(CONFIGURED.format(word="compilation_inf0"))
    project.add(
        '[[sweep]]\noperation = "module"\nthreads = 1\nfile = ["../asked.mlir", "../misspelt.mlir"]\n', "a.toml"
    )
    outcome = project.doit("compile")
    asked = "distribution = [16, 16, 0], vector_common_parallel = [4, 16, 0], vector_reduction = [0, 0, 2]"
    assert outcome.code == 1
    assert f"configuration ignored: the module asks for {asked}; applied DoubleTilingExpert" in outcome.out
    assert "1 failed" in outcome.out
    for name in ("asked", "misspelt"):
        said = (tmp_path / f"build/module_{name}_main_default@llvm-cpu-1t/case.txt").read_text()
        assert f"requested      DoubleTilingExpert and {asked}\n" in said
