"""Wrong inputs, stateful modules and files that are not modules are reported, and stop no other case."""

from pathlib import Path

import numpy as np
import pytest
from support.project import Project, sweep

from dispatchflow.mlir.functions import foreign_format, stored
from dispatchflow.models import other_formats

pytest_plugins = ["support.project"]

DOUBLED = """\
func.func @main(%x: tensor<{sizes}xf32>) -> tensor<{sizes}xf32> {{
  %0 = arith.addf %x, %x : tensor<{sizes}xf32>
  return %0 : tensor<{sizes}xf32>
}}
"""
COUNTER = """\
util.global private mutable @counter = dense<0.0> : tensor<4xf32>
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %c = util.global.load @counter : tensor<4xf32>
  %0 = arith.addf %a, %c : tensor<4xf32>
  util.global.store %0, @counter : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
SCALAR = """\
func.func @main(%a: tensor<i32>) -> tensor<i32> {
  %0 = arith.addi %a, %a : tensor<i32>
  return %0 : tensor<i32>
}
"""
NUMBERS = "func.func @main(%a: i32, %b: i32) -> i32 {\n  %0 = arith.addi %a, %b : i32\n  return %0 : i32\n}\n"
STRANGE = {
    "empty.mlir": (b" \n", "empty.mlir is empty"),
    "wide.mlir": ("func.func @main() { return }".encode("utf-16"), "wide.mlir is UTF-16; MLIR is UTF-8"),
    "made.vmfb": (b"PK\x03\x04\x2d\x00", "made.vmfb is a zip archive"),
    "junk.mlir": (b"\x01\x00\x02", "junk.mlir is binary data"),
    "net.tflite": (b"\x1c\0\0\0TFL3", "net.tflite is binary data, neither MLIR text nor MLIR bytecode; import the saved model"),
    "own.mlir": (b"func.func private @p() { return }", "no public function 'main'; the file has none"),
    "typo.mlir": (b"func.func @main() -> tensor<4xf32> {\n  nonsense\n}\n", "cannot parse typo.mlir: 2:3: custom op 'nonsense'"),
}  # fmt: skip
MODULE = {"operation": "module", "m": None, "n": None, "k": None, "reference": "vmvx"}


@pytest.mark.parametrize("name", [name for name in STRANGE if name not in ("own.mlir", "typo.mlir")])
def test_a_file_that_is_not_mlir_is_named_by_its_format(name):
    content, told = STRANGE[name]
    assert told.startswith(f"{name} {foreign_format(content)}") or f"{name} {foreign_format(content)}".startswith(told)


@pytest.mark.parametrize("ending", [".tflite", ".pb", ".h5", ".keras", ".pt", ".pth", ".safetensors", ".PT"])
def test_a_network_in_another_format_has_a_way_to_mlir_that_its_page_describes(ending):
    way, page = other_formats.hint(f"nets/net{ending}").split("; see ")
    text = (Path(__file__).parents[2] / page).read_text()
    assert ending.lower() in text
    assert all(tool in text for tool in ("iree-import-tf", "doit import") if tool in way)


def test_mlir_is_left_to_the_compiler():
    assert foreign_format(DOUBLED.format(sizes=4).encode()) is None
    assert foreign_format(b"ML\xefR\0\0") is None
    assert other_formats.hint("nets.pt/net.mlirbc") is None


def test_stores_of_initializers_do_not_count_as_state():
    once = "module {\n  util.initializer {\n    util.global.store %0, @table : i32\n    util.return\n  }\n"
    assert stored(once + "}") == []
    assert stored(f'{once}  util.func @f() {{\n    util.global.store %0, @"a b" : i32\n  }}\n}}') == ["a b"]
    assert stored("  ml_program.global_store @x = %0 : tensor<4xf32>\n") == ["x"]


def test_a_write_through_a_pointer_counts_as_state():
    address = "    %pointer = util.global.address @s : !util.ptr<i32>\n"
    store = "    util.global.store.indirect %0, %pointer : i32 -> !util.ptr<i32>\n"
    assert stored(f"util.func @f() {{\n{address}{store}}}") == ["s"]
    assert stored(f"util.func @f() {{\n{address}}}") == []


@pytest.mark.iree
def test_an_odd_file_does_not_stop_the_others_and_each_has_its_reason(tmp_path):
    files = [*STRANGE, "right.mlir", "counter.mlir"]
    spec = sweep(**MODULE, file=files) + sweep(**MODULE, file="scalar.mlir", inputs="i32=6")
    spec += sweep(**MODULE, file="numbers.mlir", inputs=["1", "2"])
    spec += sweep(**MODULE, file="any.mlir", inputs="@lie.npy", name="lie")
    project = Project.make(tmp_path, spec)
    folder = tmp_path / "specs"
    for name, (content, _) in STRANGE.items():
        (folder / name).write_bytes(content)
    texts = {"right": DOUBLED.format(sizes=8), "any": DOUBLED.format(sizes="?"), "counter": COUNTER}
    for name, text in {**texts, "scalar": SCALAR, "numbers": NUMBERS}.items():
        (folder / f"{name}.mlir").write_text(text)
    np.save(folder / "lie.npy", np.zeros(2, "float32"))
    honest = (folder / "lie.npy").read_bytes()
    (folder / "lie.npy").write_bytes(honest.replace(b"(2,), }" + b" " * 10, b"(99999999999,), }"))

    outcome = project.doit("profile", "protocol=fast")

    rows = {row["case"].split("_")[1]: row for row in project.rows()}
    assert outcome.code == 1 and len(rows) == len(STRANGE) + 5, str(outcome)
    for name, (_, told) in STRANGE.items():
        assert rows[name.split(".")[0]]["reason"].startswith(told), str(outcome)
    assert rows["lie"]["reason"].startswith(
        f"{folder / 'lie.npy'} is not a .npy file: its header gives 99999999999 of float32, "
    )
    assert {name for name, row in rows.items() if row["status"] == "failed"} == {
        *(n.split(".")[0] for n in STRANGE),
        "lie",
    }
    assert rows["right"]["verification"] == "within bound"
    assert rows["scalar"]["verification"] == "equal"
    assert rows["numbers"]["verification"] == "not compared" and rows["numbers"]["median_ns"] > 0
    stateful = "stateful: it stores to @counter, so calls may differ; verified for the first call"
    assert rows["counter"]["reason"].startswith(stateful)
    assert f"within bound: module_counter_main_default@llvm-cpu-1t: {stateful}" in outcome.out


@pytest.mark.iree
def test_a_function_that_the_file_lacks_failed_in_this_run_and_not_in_an_earlier_one(tmp_path):
    project = Project.make(tmp_path, sweep(**MODULE, file="right.mlir"))
    text = DOUBLED.format(sizes=8)
    (tmp_path / "own.mlir").write_text(text + text.replace("func.func @main", "func.func private @p"))

    for told in ("1 case: 1 failed; 1 emitted in ", "1 case: nothing to do (1 failed) in "):
        outcome = project.doit("file=own.mlir", "function=p", "threads=1", "verify")

        assert outcome.code == 1 and told in outcome.out, str(outcome)
        assert "failed: no public function 'p'; the file has main (module_own_" in outcome.out


@pytest.mark.iree
def test_functions_whose_names_are_no_names_of_files_are_compiled_and_repeat_by_hand(tmp_path):
    project = Project.make(tmp_path, sweep(**MODULE, file="slash.mlir"))
    text = DOUBLED.format(sizes=8)
    (tmp_path / "specs/slash.mlir").write_text(text.replace("@main", '@"a/b"') + text.replace("@main", "@plain"))

    outcome = project.doit("verify")

    assert outcome.code == 0 and outcome.out.count("compile module_") == 1, str(outcome)
    applied = (tmp_path / "build/module_slash_a-b_default@llvm-cpu-1t/configurations.mlir").read_text()
    assert 'hal.executable public @"a/b_dispatch_0"' in applied
    script = tmp_path / "build/module_slash_a-b_default@llvm-cpu-1t/repro.sh"
    import subprocess

    assert "same bytes" in subprocess.run([script, "compile"], capture_output=True, text=True, check=True).stdout
    assert project.doit("store", "check", "sample=all").code == 0


@pytest.mark.iree
def test_two_projects_that_share_a_store_keep_their_rows_of_modules_of_one_name(tmp_path):
    shared = {"DISPATCHFLOW_STORE": str(tmp_path / "store")}
    projects = [Project.make(tmp_path / name, sweep(**MODULE, file="right.mlir")) for name in ("one", "other")]
    for project, sizes in zip(projects, (8, 16), strict=True):
        (project.root / "specs/right.mlir").write_text(DOUBLED.format(sizes=sizes))
        assert project.doit("protocol=fast", **shared).code == 0
    assert "up to date" in projects[0].doit("protocol=fast", **shared).out  # so no row is written again
    from dispatchflow.results import parquet

    rows = parquet.read(tmp_path / "store/results")
    assert [row["file"] for row in rows] == [str(project.root / "specs/right.mlir") for project in projects]
    assert len({row["case"] for row in rows}) == 1
    assert len({row["program_digest"] for row in rows}) == len({row["data_digest"] for row in rows}) == 2


@pytest.mark.parametrize("words", ["reference=vmvx,llvm-cpu", "expected=", "expected=a.npy;;b.npy", "name=", "inputs="])
def test_an_empty_or_excess_value_of_a_module_variable_is_refused_on_the_command_line(words):
    from dispatchflow.cli import variables
    from dispatchflow.errors import SpecError

    name, _, value = words.partition("=")
    with pytest.raises(SpecError, match=f"{name} cannot be '"):
        variables.parse({name: value}, ("cases",))
