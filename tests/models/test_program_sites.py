"""The sites (launches of dispatches) of a program are found in the same code that verification ran.

Each site is listed with the operations of the user's program that this site computes."""

import os

import pytest
from support.project import Project, sweep
from support.tools import toolchain

from dispatchflow.engine import provenance
from dispatchflow.iree import command_lines
from dispatchflow.iree.release import syntax_of
from dispatchflow.project.workspace import Workspace

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

TWO = """\
func.func @main(%a: tensor<8x16xf32>, %b: tensor<16x4xf32>, %c: tensor<4x32xf32>) -> tensor<8x32xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %m = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x4xf32>) outs(%f : tensor<8x4xf32>) -> tensor<8x4xf32>
  %g = tensor.empty() : tensor<8x32xf32>
  %h = linalg.fill ins(%z : f32) outs(%g : tensor<8x32xf32>) -> tensor<8x32xf32>
  %n = linalg.matmul ins(%m, %c : tensor<8x4xf32>, tensor<4x32xf32>) outs(%h : tensor<8x32xf32>) -> tensor<8x32xf32>
  return %n : tensor<8x32xf32>
}
"""
LOOP = """\
  %{name}:2 = scf.while (%a = %{given}, %i = %c0) : (tensor<32x32xf32>, i32) -> (tensor<32x32xf32>, i32) {{
    %lt = arith.cmpi slt, %i, %n : i32
    scf.condition(%lt) %a, %i : tensor<32x32xf32>, i32
  }} do {{
  ^bb0(%a: tensor<32x32xf32>, %i: i32):
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<32x32xf32>) -> tensor<32x32xf32>
    %m = linalg.matmul ins(%a, %x : tensor<32x32xf32>, tensor<32x32xf32>) outs(%f : tensor<32x32xf32>) -> tensor<32x32xf32> loc("{label}")
    %j = arith.addi %i, %c1 : i32
    scf.yield %m, %j : tensor<32x32xf32>, i32
  }}
"""
LOOPS = f"""\
func.func @main(%x: tensor<32x32xf32>, %n: i32) -> tensor<32x32xf32> {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x32xf32>
{LOOP.format(name="r", given="x", label="first")}{LOOP.format(name="s", given="r#0", label="second")}\
  return %s#0 : tensor<32x32xf32>
}}
"""
UNTIL = """\
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %one = arith.constant 1.0 : f32
  %half = arith.constant dense<0.5> : tensor<16xf32>
  %c0 = arith.constant 0 : index
  %r = scf.while (%a = %x) : (tensor<16xf32>) -> tensor<16xf32> {
    %v = tensor.extract %a[%c0] : tensor<16xf32>
    %more = arith.cmpf ogt, %v, %one : f32
    scf.condition(%more) %a : tensor<16xf32>
  } do {
  ^bb0(%a: tensor<16xf32>):
    %b = arith.mulf %a, %half : tensor<16xf32>
    scf.yield %b : tensor<16xf32>
  }
  return %r : tensor<16xf32>
}
"""
DYNAMIC = """\
func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = arith.addf %x, %x : tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
"""
LOADED = """\
util.global private mutable @table : tensor<64xf32>
util.initializer {
  %c = arith.constant dense<2.0> : tensor<64xf32>
  %x = util.optimization_barrier %c : tensor<64xf32>
  %0 = math.sqrt %x : tensor<64xf32>
  util.global.store %0, @table : tensor<64xf32>
  util.return
}
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %t = util.global.load @table : tensor<64xf32>
  %0 = arith.mulf %x, %t : tensor<64xf32>
  return %0 : tensor<64xf32>
}
"""
TURNED = """\
func.func @main(%x: tensor<8x64xf32>) -> tensor<64x8xf32> {
  %e = tensor.empty() : tensor<64x8xf32>
  %t = linalg.transpose ins(%x : tensor<8x64xf32>) outs(%e : tensor<64x8xf32>) permutation = [1, 0]
  return %t : tensor<64x8xf32>
}
"""
TOSA = """\
func.func @main(%x: tensor<1x4x8xf32>, %w: tensor<1x8x5xf32>) -> tensor<1x4x5xf32> {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %0 = tosa.matmul %x, %w, %z, %z : (tensor<1x4x8xf32>, tensor<1x8x5xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x5xf32>
  %1 = tosa.tanh %0 : (tensor<1x4x5xf32>) -> tensor<1x4x5xf32>
  return %1 : tensor<1x4x5xf32>
}
"""
STABLEHLO = """\
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x5xf32>) -> tensor<4x5xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %1 = stablehlo.exponential %0 : tensor<4x5xf32>
  return %1 : tensor<4x5xf32>
}
"""
CONVOLUTION = (
    "stablehlo.convolution({given}) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {{{window}}}"
    " {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : {types} -> tensor<1x4x6x6xf32>"
)
FIRE = f"""\
func.func @main(%x: tensor<1x4x6x6xf32>, %v: tensor<4x4x1x1xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<1x4x6x12xf32> {{
  %0 = {CONVOLUTION.format(given="%x, %v", window="", types="(tensor<1x4x6x6xf32>, tensor<4x4x1x1xf32>)")}
  %1 = {CONVOLUTION.format(given="%0, %v", window="", types="(tensor<1x4x6x6xf32>, tensor<4x4x1x1xf32>)")}
  %2 = {CONVOLUTION.format(given="%0, %w", window="pad = [[1, 1], [1, 1]]", types="(tensor<1x4x6x6xf32>, tensor<4x4x3x3xf32>)")}
  %3 = stablehlo.concatenate %1, %2, dim = 3 : (tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>) -> tensor<1x4x6x12xf32>
  return %3 : tensor<1x4x6x12xf32>
}}
"""
FILLED = """\
func.func @main(%n: index, %p: i64) -> tensor<?xi64> {
  %e = tensor.empty(%n) : tensor<?xi64>
  %f = linalg.fill ins(%p : i64) outs(%e : tensor<?xi64>) -> tensor<?xi64>
  return %f : tensor<?xi64>
}
"""
PROGRAMS = {
    "two": TWO, "loops": LOOPS, "until": UNTIL, "dynamic": DYNAMIC, "loaded": LOADED, "turned": TURNED,
    "tosa": TOSA, "stablehlo": STABLEHLO,
}  # fmt: skip
KINDS = {
    "two": [["linalg.matmul"], ["linalg.matmul"]],
    "loops": [["linalg.matmul"], ["linalg.matmul"]],
    "until": [["arith.mulf"]],
    "dynamic": [["arith.addf"]],
    "loaded": [["math.sqrt"], ["arith.mulf"]],
    "turned": [["linalg.transpose"]],
    "tosa": [["tosa.matmul", "tosa.tanh"]],
    "stablehlo": [["stablehlo.dot_general", "stablehlo.exponential"]],
}


def workspace_of(folder, target, **programs):
    names = ", ".join(f'"{name}.mlir"' for name in programs)
    spec = f'[[sweep]]\noperation = "module"\nfile = [{names}]\ntarget = "{target}"\n'
    project = Project.make(folder, spec)
    for name, text in programs.items():
        (project.root / f"specs/{name}.mlir").write_text(text)
    return Workspace(folder, {})


def made(folder, target, **programs):
    executor = (workspace := workspace_of(folder, target, **programs)).executor
    found = {}
    for case in workspace.plan.cases:
        compiled, record = executor.compile(case), provenance.of_case(executor, case)
        assert compiled is not None and compiled.ok, compiled and compiled.reason
        assert record is not None and record.ok, record and record.reason
        assert provenance.of_case(executor, case).at == record.at  # the second call reuses the record
        found[case.operation.title] = provenance.program_of(executor, record.outputs), record
    return found


ALL = tuple(PROGRAMS)
FEW = ("two", "loops", "loaded", "dynamic")


@pytest.mark.parametrize(
    ("target", "names"),
    [
        pytest.param("llvm-cpu", ALL, id="llvm-cpu"),
        *(pytest.param(target, FEW, id=target) for target in ("vmvx", "cuda-sm_80", "rocm-gfx942")),
        *(
            pytest.param(target, ALL, id=f"{target}-all", marks=pytest.mark.slow)
            for target in ("vmvx", "cuda-sm_80", "rocm-gfx942")
        ),
    ],
)
def test_sites_of_the_verified_code_have_the_operations_that_the_user_wrote(tmp_path, target, names):
    found = made(tmp_path, target, **{name: PROGRAMS[name] for name in names})

    assert found.keys() == set(names)
    for name, (program, record) in found.items():
        kind = {operation.number: operation.kind for operation in program.operations}
        assert [[kind[origin.operation] for origin in site.origins] for site in program.sites] == KINDS[name], name
        assert {origin.evidence for site in program.sites for origin in site.origins} == {"location"}
        assert program.unplaced == program.shared == () and program.unlabelled is None
        assert (
            record.facts["sites"] == len(program.sites) and record.facts["untagged"] == record.facts["unlaunched"] == 0
        )
        assert [site.number for site in program.sites] == [*range(1, len(program.sites) + 1)]
    loops, loaded = found["loops"][0], found["loaded"][0]
    labels = {operation.number: (operation.name, operation.place) for operation in loops.operations}
    assert [labels[site.origins[0].operation][0] for site in loops.sites] == ["first", "second"]
    assert len({site.export for site in loops.sites}) == 1
    assert loops.sites[0].command_buffer < loops.sites[1].command_buffer
    assert [(site.function, site.at_load) for site in loaded.sites] == [("table", True), ("main", False)]
    assert [operation.kind for operation in loaded.at_load] == ["math.sqrt"]
    two = found["two"][0]
    assert [operation.place for operation in two.operations if operation.computes] == ["two.mlir:5:8", "two.mlir:8:8"]
    assert [(site.flops, site.traffic_bytes) for site in two.sites] == [(1024, 896), (2048, 1664)]
    assert [(site.flops, site.traffic_bytes) for site in found["dynamic"][0].sites] == [(None, None)]


def test_copies_and_fills_that_the_compiler_adds_have_the_operations_that_they_are_for(tmp_path):
    found = made(tmp_path, "llvm-cpu", fire=FIRE, filled=FILLED)

    def origins(site, program):
        place = {operation.number: operation.place for operation in program.operations}
        return [(place[origin.operation], origin.evidence) for origin in site.origins]

    fire, record = found["fire"]
    copies = [origins(site, fire) for site in fire.sites if "memcpy" in site.export]
    concat = [("fire.mlir:5:8", "data flow")]
    assert copies == [[("fire.mlir:4:8", "data flow")], concat, concat]
    assert all(site.origins for site in fire.sites) and fire.unplaced == ()
    assert record.facts["untagged"] == 0
    filled, record = found["filled"]
    assert [origins(site, filled) for site in filled.sites] == [[("filled.mlir:3:8", "launch")]]
    assert record.facts["untagged"] == 1


def test_sites_of_an_operation_have_the_operations_of_its_module(tmp_path):
    Project.make(tmp_path, sweep(epilogue="bias+relu"))
    (case, *_), executor = (workspace := Workspace(tmp_path, {})).plan.cases, workspace.executor

    record = provenance.of_case(executor, case)

    assert record is not None and record.ok, record and record.reason
    (site,) = (program := provenance.program_of(executor, record.outputs)).sites
    kind = {operation.number: operation for operation in program.operations}
    assert "linalg.matmul" in [kind[origin.operation].kind for origin in site.origins]
    assert site.flops >= 2 * 16**3 and site.traffic_bytes >= 3 * 4 * 16**2
    assert program.unplaced == ()


def test_toolchain_without_bindings_has_no_sites_and_the_case_compiles(tmp_path, monkeypatch):
    path = toolchain(tmp_path / "iree")
    workspace = workspace_of(tmp_path / "p", "vmvx", turned=TURNED).with_toolchain("current")
    for entry in reversed(path.split(os.pathsep)):
        monkeypatch.syspath_prepend(entry)
    (case,) = workspace.plan.cases

    record = provenance.of_case(workspace.executor, case)

    assert workspace.executor.compile(case).ok
    assert not record.ok
    assert record.reason.startswith("this toolchain has no Python bindings (iree.compiler.ir)")
    assert not record.facts["repeatable"]


def test_release_before_3_12_has_no_sites_and_the_case_compiles(tmp_path):
    workspace = workspace_of(tmp_path, "vmvx", turned=TURNED)
    (case,) = workspace.plan.cases
    assert workspace.executor.compile(case).ok
    workspace.executor.resolver.syntax = syntax_of("3.11.0")

    record = provenance.of_case(workspace.executor, case)

    assert not record.ok
    assert record.reason.startswith("sites are not available with IREE ")


def test_labels_of_another_module_are_dropped_and_the_reason_is_recorded(tmp_path, monkeypatch):
    workspace = workspace_of(tmp_path, "vmvx", turned=TURNED)
    (case,) = workspace.plan.cases
    monkeypatch.setattr(provenance, "_content", lambda *given: TWO.encode())

    record = provenance.of_case(workspace.executor, case)

    program = provenance.program_of(workspace.executor, record.outputs)
    assert record.facts["unlabelled"] == program.unlabelled
    assert program.unlabelled == "the file's operations are not those of the printed module, in the same order"
    assert {(operation.name, operation.place) for operation in program.operations} == {(None, None)}
    assert len(program.sites) == 1 and program.sites[0].origins


def test_other_code_of_the_tagged_module_is_a_failure(tmp_path, monkeypatch):
    workspace = workspace_of(tmp_path, "vmvx", turned=TURNED)
    (case,) = workspace.plan.cases
    phase = command_lines.phase_argv
    other = "--iree-vm-bytecode-module-strip-source-map=false"
    monkeypatch.setattr(command_lines, "phase_argv", lambda tool, flags, *rest: phase(tool, (*flags, other), *rest))

    record = provenance.of_case(workspace.executor, case)

    assert not record.ok and not record.outputs
    assert record.reason.startswith("the tagged module compiles to other code than the case's own")
    assert workspace.executor.compile(case).ok
