"""Each folder of a test suite that contains a module and a file of flags becomes a case.

Folders without a module or without flags are skipped. Planning these cases needs no IREE."""

import os

import pytest
from support import suite_folders

from dispatchflow.errors import SpecError
from dispatchflow.iree import flag_file
from dispatchflow.project.workspace import Workspace

SWEEP = '[[sweep]]\noperation = "module"\nthreads = 1\n'


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suite_folders.make(tmp_path / "suite/node")
    (tmp_path / "specs").mkdir()
    return tmp_path


def plan_of(root, **words):
    return Workspace(root, {"threads": "1", **words}).plan


def programs(plan):
    return {case.operation.title: case.operation for case in plan.cases}


def test_each_folder_with_a_module_and_flags_is_a_case_that_has_its_name(root):
    plan = plan_of(root, suite=("suite/node/*",))
    assert [case.name.partition("_default")[0] for case in plan.cases] == [
        f"module_{name}_{name}" for name in ("broken", "odd_flag", "right", "scalar", "several", "wrong")
    ]
    assert {skip.name: skip.reason for skip in plan.skips} == {
        "module_no_flags": "no flag file (run_module_io_flags.txt)",
        "module_no_module": "no module (model.mlir)",
    }


def test_a_spec_names_a_suite_relative_to_itself_and_filters_it(root):
    (root / "specs/a.toml").write_text(f'{SWEEP}suite = "../suite/**/[rw]*"\nexclude = "*wrong*"\n')
    (case,) = Workspace(root, {}).plan.cases
    assert case.name == "module_right_right_default@llvm-cpu-1t"
    assert (root / "suite/node/right/model.mlir").samefile(case.operation.source.path)


def test_a_folder_that_is_not_a_test_selects_the_folders_in_it(root):
    assert plan_of(root, suite=("suite/node",)) == plan_of(root, suite=("suite/node/*",))
    every = plan_of(root, suite=("./suite//**/",))
    assert (every.cases, len(every.skips)) == (plan_of(root, suite=("suite/node/*",)).cases, 2)
    (one,) = plan_of(root, suite=("suite/n*/right",)).cases
    assert one.operation.title == "right"


def test_inputs_and_results_are_those_of_the_flag_file(root):
    several = programs(plan_of(root, suite=("suite/node/*",)))["several"]
    assert [(item.type, item.value, item.file is not None) for item in several.inputs] == [
        ("2x4xf32", None, True),
        ("4xi64", "1 2 0 4", False),
    ]
    assert [item.type for item in several.expected] == ["2x4xf32", "4xi64", "4xi1"]
    assert (several.entry, several.problem) == ("several", None)


def test_a_flag_that_is_not_understood_fails_only_the_cases_of_its_folder(root):
    def problem(flags):
        (root / "suite/node/odd_flag/run_module_io_flags.txt").write_text(flags)
        found = programs(plan_of(root, suite=("suite/node/*",)))
        assert all(program.problem is None for name, program in found.items() if name != "odd_flag")
        return found["odd_flag"].problem

    assert problem("\n--inputs=5\n") == "run_module_io_flags.txt:2: --inputs is not understood. Did you mean 'input'?"
    assert problem("--foo=1").endswith("Known are --input, --expected_output, --function, --parameters.")
    assert problem("input 4xf32") == (
        "run_module_io_flags.txt:1: 'input 4xf32' is no flag. "
        "Known are --input, --expected_output, --function, --parameters."
    )
    assert "a file cannot be read: suite/node/odd_flag/x.bin" in problem("--input=4xf32=@x.bin")
    assert "'4xq9' is not a type: 4xq9=1" in problem("--input=4xq9=1")
    assert "expected numbers are not read from a flag" in problem("--expected_output=2xf32=1 2")


def test_a_type_alone_is_zeros_and_a_bare_type_has_rank_0():
    assert list(map(flag_file.tensor, ["4x8xf32", "f32", "5", "-1.5", "i32=7", "2x2xi32=[1 2][3 4]", "@x.npy"])) == [
        "4x8xf32=0", "tensor<f32>=0", "5", "-1.5", "tensor<i32>=7", "2x2xi32=1 2 3 4", "@x.npy",
    ]  # fmt: skip


def test_folders_of_the_same_name_are_named_by_their_paths(root):
    suite_folders.make(root / "suite/other")
    names = [case.operation.label for case in plan_of(root, suite=("suite/*/right", "suite/node/wrong")).cases]
    assert plan_of(root, suite=("suite/**/wrong",)).skips == ()
    assert names == ["node-right_right", "other-right_right", "wrong_wrong"]


def test_a_reference_is_for_folders_without_expected_results(root):
    suite_folders.folder(root / "suite/node", "bare", suite_folders.ADD.format(name="bare"), "--input=2x4xf32\n")
    found = programs(plan_of(root, suite=("suite/node/*",), reference="vmvx", rtol=1e-3))
    assert [name for name, program in found.items() if program.against] == ["bare"]
    assert {program.rtol for program in found.values()} == {"0.001"}


def test_a_function_that_no_folder_has_is_an_error_and_one_that_some_have_selects_these(root):
    with pytest.raises(SpecError, match="no public function 'rihgt'") as error:
        plan_of(root, suite=("suite/node/*",), function=("rihgt",))
    assert error.value.facts == {
        "spec": "function= on the command line",
        "suite": "suite/node/*",
        "functions": "several, broken, odd_flag, right, scalar, wrong",
    }
    assert (error.value.hint, error.value.exit_code) == ("Did you mean 'right'?", 2)
    plan = plan_of(root, suite=("suite/node/*",), function=("right",))
    assert [case.operation.entry for case in plan.cases] == ["right", "several"]
    with pytest.raises(SpecError, match="no public function 'foo'"):  # its flags name the function `several`
        plan_of(root, suite=("suite/node/several",), function=("foo",))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"suite": ("suite/x*",)}, r"no folder of a suite matches:\n.*\n  given +suite/x\*\n"),
        ({"suite": ("missing",)}, "a suite cannot be read"),
        ({"suite": ("suite/node",), "file": ("a.mlir",)}, "both 'suite' and 'file' are given"),
        ({"suite": ("suite/node",), "inputs": ("5",)}, "both 'suite' and 'inputs' are given"),
        ({"suite": ("suite/node",), "reference": "onnxruntime"}, "onnxruntime runs ONNX models only"),
        ({"suite": ("suite/node",), "rtol": -1.0}, "rtol cannot be"),
    ],
)
def test_a_wrong_sweep_of_a_suite_is_an_error(root, words, said):
    with pytest.raises(SpecError, match=said):
        plan_of(root, **words)


def test_an_answer_depends_on_the_names_in_each_folder_and_on_each_file(root):
    seen = {}

    class Recall:
        def look(self, kind, name):
            return seen.setdefault((kind, name), "")

        def see(self, kind, name, value):
            return seen.setdefault((kind, name), value)

    assert Workspace(root, {"suite": ("suite/node/*",)}, Recall()).plan.cases
    kinds = {(kind, os.path.relpath(name, root / "suite/node")) for kind, name in seen if "suite" in name}
    assert {("stamp", "."), ("stamp", "no_flags"), ("file", "right/model.mlir")} <= kinds
    assert ("file", "right/run_module_io_flags.txt") in kinds
