"""The functions of a user's MLIR file become cases, and mistakes in sweeps of modules are reported."""

import io
from pathlib import PurePath

import numpy as np
import pytest

from dispatchflow.cases import module
from dispatchflow.errors import SpecError
from dispatchflow.keys import digest_of
from dispatchflow.mlir import functions
from dispatchflow.mlir.functions import Declaration, without_resources
from dispatchflow.planning import parser, plan
from dispatchflow.planning.location import COMMAND_LINE

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
    assert functions.functions(TEXT) == ["two", "one", "none", "odd name"]


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


def test_functions_are_found_anywhere_except_in_inner_modules():
    assert functions.functions(WRITTEN) == ["main", "second", "third"]
    inner = "module @m {\n  module @inner {\n    func.func @helper() {\n    }\n  }\n  func.func @main() {\n  }\n}\n"
    assert list(functions.declarations(inner)) == ["main"]


def test_escapes_are_removed_from_names():
    names = [("é", r"\C3\A9"), ('a"b', r"a\22b"), ("a\\b", r"a\\b"), ("a\nb", r"a\0Ab"), ("a\tb", r"a\tb"), ("ü", "ü")]
    text = "\n".join(f'  func.func @"{written}"() {{\n  }}' for _, written in names)
    generic = "\n".join(f'"func.func"() <{{sym_name = "{written}"}}> ({{}}) : () -> ()' for _, written in names)
    found = [name for name, _ in names]
    assert functions.functions(text) == functions.functions(generic) == list(functions.declarations(text)) == found
    assert all(functions.mentions(generic, name) for name in found)
    assert not functions.mentions(generic, "C3")


@pytest.mark.parametrize("written", [r"a\FF", r"a\00", "a\udcff"])
def test_a_name_that_cannot_be_passed_to_a_tool_is_refused(written):
    content = f'func.func @"{written}"() {{}}'.encode(errors="surrogateescape")
    with pytest.raises(SpecError, match="a function cannot be called") as refused:
        plan_of('file = "new.mlir"', read=lambda name: (name, content))
    assert "Rename the function" in str(refused.value)


def test_a_named_function_is_accepted_if_the_text_mentions_it():
    assert [case.operation.function for case in plan_of('file = "odd.mlir"\nfunction = "old"').cases] == ["old"]


def test_types_in_the_runtime_s_spelling_are_parsed():
    assert functions.declarations(TEXT) == {
        "two": Declaration(("4x8xf32", "i32", "?x8xbf16"), ("4x8xf32", "?x8xbf16", "i32")),
        "one": Declaration(("2x?xi64", "tensor<f32>"), ("2xi8",)),
        "none": Declaration((), ("16xi1",)),
        "odd name": Declaration(("2x3xf8E4M3FN", "tensor<f32>", "!hal.buffer_view"), ()),
    }
    found = functions.declarations(TEXT)
    assert functions.from_facts(functions.to_facts(found)) == found


ARCHIVE = io.BytesIO()
np.savez(ARCHIVE, **{name: np.zeros((4, 8), "float32") for name in ("in10", "in2", "out0")})
FILES = {
    "ref.npz": ARCHIVE.getvalue(),
    "a.mlir": TEXT.encode(),
    "broken.npz": b"PK",
    "w.irpa": b"IRPA weights",
    "v.gguf": b"GGUF weights",
    "b.bin": bytes(128),
    "code.mlirbc": b"ML\xefR and more",
    "sub/a.mlir": b"func.func @two() {}",
    "odd.mlir": b'func.func @main() {} "func.func"() ({}) {sym_name = "old"} : () -> ()',
}


def read(name):
    if name not in FILES:
        raise FileNotFoundError(2, "No such file or directory", name)
    return f"/specs/{name}", FILES[name]


def read_digest(name):
    path, content = read(name)
    return path, digest_of(content)


read.digest = read_digest


def plan_of(*sweeps, read=read):
    text = "\n".join(f'[[sweep]]\noperation = "module"\n{sweep}' for sweep in sweeps)
    return plan.expand(parser.parse(text, PurePath("specs/m.toml"), {"dtype": "f16"}, read))


def test_each_function_is_a_case_named_after_file_and_function():
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


def test_a_tuning_that_a_backend_does_not_know_is_a_skip():
    tunings = 'tuning = ["data_tiling", "data_tiling_ukernels_all"]\ntarget = ["vmvx", "vulkan"]'
    found = plan_of(f'file = "a.mlir"\nfunction = "two"\n{tunings}')
    tried = [(case.tuning.name, case.target.name) for case in found.cases]
    assert tried == [("data_tiling", "vmvx"), ("data_tiling", "vulkan")]
    assert {skip.reason for skip in found.skips} == {
        f"only llvm-cpu has these microkernels, not {backend}" for backend in ("vmvx", "vulkan-spirv")
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "needs a file"),
        ('file = "no.mlir"', "No such file"),
        ('file = "a.mlir"\nfunction = "tow"', "Did you mean 'two'"),
        ('file = "odd.mlir"\nfunction = "mai"', "Did you mean 'main'"),
        ('file = "code.mlirbc"', "the functions of bytecode cannot be listed"),
        ('file = "a.mlir"\nreference = "vmvx,llvm-cpu"', "there are several references"),
        ('file = "a.mlir"\ninputs = ["4x8xq32"]', "'4x8xq32' is not a type"),
        ('file = "a.mlir"\ninputs = ["4x8xf32=rondom"]', "Did you mean 'random'"),
        ('file = "a.mlir"\ninputs = ["4xi8=300 -1 7 7"]', "300 is not representable as i8, -128 … 127"),
        ('file = "a.mlir"\ninputs = ["4xi8=0..200"]', "200 is not representable as i8, -128 … 127"),
        ('file = "a.mlir"\ninputs = ["4xf16=0..4096"]', "4096 is not representable as f16, which holds each of -2048"),
        ('file = "a.mlir"\ninputs = ["4xi8=9..0"]', "the range 9..0 has no number"),
        ('file = "a.mlir"\ninputs = ["4xi8=0..0.5"]', "'0..0.5' is not an input"),
        ('file = "a.mlir"\ninputs = ["4xi8=1 -1 1.5 7"]', "1.5 is not representable as i8"),
        ('file = "a.mlir"\ninputs = ["4xi8=nan"]', "nan is not representable as i8"),
        ('file = "a.mlir"\ninputs = ["i32=99999999999"]', "99999999999 is not representable as i32"),
        ('file = "a.mlir"\ninputs = ["index=1e19"]', "1e19 is not representable as index"),
        ('file = "a.mlir"\ninputs = ["b.npy"]', "To read an input from a file, write @b.npy."),
        ('file = "a.mlir"\ninputs = ["4x8xf32=b.bin"]', "To read an input from a file, write @b.bin."),
        ('file = "a.mlir"\ninputs = ["@b.bin"]', "Write 4x8xf32=@b.bin"),
        ('file = "a.mlir"\nexpected = ["no.npy"]', "No such file"),
        ('file = "a.mlir"\ninputs = "@ref.npz:im*"', "members  in2, in10, out0"),
        ('file = "a.mlir"\nexpected = "@ref.npz:out1"', "ref.npz has no member 'out1'"),
        ('file = "a.mlir"\nexpected = "ref.npz"', "the members of an archive are to be named"),
        ('file = "a.mlir"\ninputs = "4x8xf32=@ref.npz:in2"', "Write @ref.npz:in2."),
        ('file = "a.mlir"\nexpected = "4x8xq32=@b.bin"', "No such file"),
        ('file = "a.mlir"\nexpected = "@broken.npz:a"', "not a .npz file"),
        ('file = "a.mlir"\nparameters = "model=no.irpa"', "No such file"),
        ('file = "a.mlir"\nparameters = "model=b.bin"', 'Write parameters = ["model=weights.irpa"]'),
        ('file = "a.mlir"\nparameters = "model="', "the format of these parameters is not known"),
        ('file = "a.mlir"\nparameters = ["w.irpa", " = w.irpa"]', "parameters are given twice"),
        ('file = "a.mlir"\ninputs = "4x8xf32;5"', 'Write several inputs as inputs = ["4x8xf32", "5"].'),
        ('file = "a.mlir"\nrtol = nan', "rtol cannot be nan"),
        ('file = "a.mlir"\nrtol = inf', "rtol cannot be inf"),
        ('file = "a.mlir"\nrtol = -1', "rtol cannot be -1.0"),
        ('file = "a.mlir"\nreference = "vmxv"', "Did you mean 'vmvx'"),
        ('file = "a.mlir"\nreference = "vmvx"\nexpected = ["b.bin"]', "both"),
        ('file = "a.mlir"\nm = 4', "unknown word 'm'"),
    ],
)
def test_an_error_in_a_sweep_of_modules_names_its_place(words, told):
    with pytest.raises(SpecError) as error:
        plan_of(words)
    assert told in str(error.value)
    assert "specs/m.toml:1" in str(error.value)


def test_members_of_an_archive_are_several_words():
    words = 'file = "a.mlir"\nfunction = "two"\ninputs = ["@ref.npz:in*", "5"]\n'
    (case,) = plan_of(words + 'expected = ["@ref.npz:out0", "@b.bin", "4x8xf32=@b.bin", "b.bin"]').cases
    found = [item.file and item.file.spelt for item in case.operation.inputs]
    assert found == ["/specs/ref.npz:in2", "/specs/ref.npz:in10", None]
    assert [(item.spelt, item.type) for item in case.operation.expected] == [
        ("/specs/ref.npz:out0", None), ("/specs/b.bin", None), ("/specs/b.bin", "4x8xf32"), ("/specs/b.bin", None)
    ]  # fmt: skip


def test_weights_are_named_with_their_scope():
    words = 'file = "a.mlir"\nfunction = "two"\n'
    (case,) = plan_of(words + 'parameters = ["model=w.irpa", "v.gguf", "model = v.gguf"]').cases
    places = [(item.scope, item.file.path) for item in case.operation.parameters]
    assert places == [("model", "/specs/w.irpa"), ("", "/specs/v.gguf"), ("model", "/specs/v.gguf")]
    values = ("model=parameters_0.irpa", "parameters_1.gguf", "model=parameters_2.gguf")
    assert case.operation.parameter_values == values
    assert case.operation.parameters[0].file.digest == digest_of(FILES["w.irpa"])


def test_one_word_is_a_list_of_one():
    one = plan_of('file = "a.mlir"\nfunction = "two"\ninputs = "3xi64=1 2 3"\nexpected = "b.bin"')
    several = plan_of('file = ["a.mlir"]\nfunction = ["two"]\ninputs = ["3xi64=1 2 3"]\nexpected = ["b.bin"]')
    assert one.cases == several.cases
    assert len(one.cases[0].operation.expected) == 1
    number = plan_of('file = "a.mlir"\nfunction = "two"\nexpected = ["b.bin", "-5"]').cases[0].operation.expected
    assert number == (one.cases[0].operation.expected[0], "-5")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            {"file": "no.mlir"},
            "Paths are relative to the directory of dodo.py, or to -d if given. Here a comma separates paths; in a spec it is part of a path.",
        ),
        (
            {"file": "a.mlir", "tuning": "tuning_spec:no.mlir"},
            "Paths are relative to the directory of dodo.py, or to -d if given. Here a comma separates paths; in a spec it is part of a path.",
        ),
        (
            {"file": "a.mlir", "parameters": "w=no.irpa"},
            "Paths are relative to the directory of dodo.py, or to -d if given. Here a semicolon separates paths; in a spec it is part of a path.",
        ),
        ({"file": "code.mlirbc"}, "Name one: function=main."),
        ({"file": "a.mlir", "inputs": "4x8xf32,5"}, "Write several inputs as 'inputs=4x8xf32;5'."),
        ({"file": "a.mlir", "inputs": "4x8xf32=1,4x8xf32"}, "Write several inputs as 'inputs=4x8xf32;5'."),
        ({}, "Write file=my.mlir, relative to the directory of dodo.py, or to -d if given."),
    ],
)
def test_hints_about_variables_use_the_command_line_s_spelling(words, hint):
    with pytest.raises(SpecError) as error:
        parser.sweep({"operation": "module", **words}, COMMAND_LINE, read)
    assert error.value.hint == hint


def test_two_modules_with_one_name_are_refused_unless_one_has_a_title():
    two = 'file = "{}"\nfunction = "two"'
    with pytest.raises(SpecError, match="two modules have this name"):
        plan_of(two.format("a.mlir"), two.format("sub/a.mlir"))
    with pytest.raises(SpecError, match="two modules have this name"):
        plan_of(two.format("a.mlir"), two.format("a.mlir") + '\ninputs = ["4x8xf32=1", "5", "3x8xbf16"]')
    with pytest.raises(SpecError, match="Name them in two sweeps"):
        plan_of('file = ["a.mlir", "sub/a.mlir"]\nfunction = "two"')
    assert len(plan_of(two.format("a.mlir"), two.format("sub/a.mlir") + '\nname = "b"').cases) == 2
    assert len(plan_of(two.format("a.mlir"), two.format("a.mlir")).cases) == 1


def test_sizes_and_known_element_types_of_results_are_compared():
    for got, expected, told in [
        ("40x12xf32", "12x40xf32", "40x12, expected 12x40"),
        ("4x8xf32", "4x8xf64", "4x8xf32, expected 4x8xf64"),
        ("1xf32", "tensor<f32>", "1xf32, expected tensor<f32>"),
        ("2xcf64", "3xcomplex64", "2, expected 3"),
    ]:
        assert module.unlike(got, expected) == told
    for got, expected in [("4xf32", "4xf32"), ("4xf32", ""), ("?xf32", "4xf32"), ("f32", "f32"), ("2xcf64", "2xi8")]:
        assert module.unlike(got, expected) is None
    assert module.with_sizes_of("4x8xcf64", "?x8xcomplex<f32>") == "4x8xcomplex<f32>"
    assert module.with_sizes_of("4xf32", functions.BUFFER_VIEW) == module.with_sizes_of("4xf32", "?xf64") == "4xf32"
    assert module.is_sized("tensor<f32>") and module.is_sized("f32") and not module.is_sized(functions.BUFFER_VIEW)


def test_blobs_of_a_printed_module_are_not_searched_for_functions() -> None:
    code = 'module {\n  func.func @main() {\n    return loc("{-#")\n  }\n}\n'
    blobs = '\n{-#\n  dialect_resources: {\n    builtin: {\n      w: "0x04000000"\n    }\n  }\n#-}\n'
    assert without_resources(code + blobs) == code + "\n"
    assert without_resources(code) == code
