"""Libraries such as numpy are measured together with IREE, with hot and with cold inputs.

If the inputs are cold, there are many copies of each, and each call takes the next ones."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.project import Project
from support.tools import LIMIT_S, environment

from dispatchflow.cases import rotating_inputs
from dispatchflow.iree.rotation import Rotation
from dispatchflow.iree.targets import TARGETS
from dispatchflow.mlir.functions import Declaration
from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.project.workspace import Workspace
from dispatchflow.verification import inputs

pytest_plugins = ["support.project"]


@pytest.mark.iree
def test_libraries_and_cold_inputs_are_measured_beside_iree(copied: Project) -> None:
    words = ("m=16", "n=16", "k=16", "threads=1", "provider=iree,numpy", "cache=hot,cold", "protocol=fast")
    made, outcome = copied.made_by(*words)
    rows = {row["case"].partition("f32t_f32t_f32t_")[2]: row for row in copied.rows() if row["m"] == 16}

    # numpy is verified once for its hot and its cold case; IREE's hot case is in the copied project.
    assert (made["emit"], made["verify"]) == (1, 1), str(outcome)
    hot, cold = rows["numpy@llvm-cpu-1t"], rows["numpy@llvm-cpu-1t-cold"]
    assert (hot["cache"], cold["cache"]) == ("hot", "cold")
    for row in (hot, cold):
        assert row["verification"] == "within bound"
        assert (row["provider"], row["runtime_version"]) == ("numpy", np.__version__)
        assert (row["tuning"], row["toolchain_version"], row["compile_key"]) == (None, None, None)
        assert len(row["blocks_ns"]) >= 6
    assert rows["default@llvm-cpu-1t-cold"]["code_digest"] == rows["default@llvm-cpu-1t"]["code_digest"]
    assert rows["default@llvm-cpu-1t"]["bound"] in ("compute", "memory")
    assert rows["default@llvm-cpu-1t"]["percent_of_peak"] > 0
    assert f"numpy {np.__version__}" in outcome.out

    assert copied.made_by(*words)[0] == {"emit": 0, "compile": 0, "verify": 0, "profile": 0}
    shown = copied.doit("report", "*16x16x16*", "format=jsonl", "columns=case,status,percent_of_best_provider").out
    parts = [line["percent_of_best_provider"] for line in map(json.loads, shown.splitlines())]
    assert max(part for part in parts if part is not None) == 100
    view = copied.root / "build" / hot["case"]
    assert "x0 @ x1" in (view / "call.py").read_text()
    subprocess.run([view / "repro.sh", "run"], check=True, timeout=LIMIT_S, env=environment({}))
    cold_view = copied.root / "build" / rows["default@llvm-cpu-1t-cold"]["case"]
    subprocess.run([cold_view / "repro.sh", "benchmark"], check=True, timeout=LIMIT_S, env=environment({}))
    assert "--module=rotation.vmfb" in (cold_view / "repro.sh").read_text()
    assert len((view / "again.bin").read_bytes()) == 16 * 16 * 4


def three_of(operation: Operation) -> Rotation:
    return replace(rotating_inputs.of_operation(operation, 1), count=3)


@pytest.mark.iree
def test_each_call_of_a_rotation_takes_the_next_copy(tmp_path: Path) -> None:
    # In the second module, all copies of the first operand but the first are zero. The results show which copy a call
    # took.
    import iree.runtime

    workspace = Workspace(tmp_path, dict.fromkeys("m", "4") | {"n": "5", "k": "6", "threads": "1"})
    (case,) = workspace.plan.cases
    flags = TARGETS["llvm-cpu"].resolved_flags(workspace.resolver.host, workspace.resolver.syntax)
    text = rotating_inputs.module(three_of(case.operation))
    whole = "linalg.broadcast ins(%x : tensor<128xi8>) outs(%empty : tensor<3x128xi8>) dimensions = [0]"
    marked = """\
tensor.expand_shape %x [[0, 1]] output_shape [1, 128] : tensor<128xi8> into tensor<1x128xi8>
    %one = tensor.pad %all low[0, 0] high[2, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %padding : i8
    } : tensor<1x128xi8> to tensor<3x128xi8>"""
    before, found, after = text.partition(whole)
    assert found
    rest = after.replace("%all :", "%one :", 1)
    turns = [workspace.executor.compile_module(t.encode(), flags) for t in (text, before + marked + rest)]
    compiled = workspace.executor.compile(case)
    operands = inputs.random(case.operation)
    results = []
    for record in turns:
        assert record.ok, record.reason
        config = iree.runtime.Config("local-sync")
        modules = [
            iree.runtime.VmModule.copy_buffer(config.vm_instance, workspace.store.path(digest).read_bytes())
            for digest in (compiled.outputs["vmfb"], record.outputs["vmfb"])
        ]
        plain, rotating = iree.runtime.load_vm_modules(*modules, config=config)
        expected = plain["main"](*operands).to_host()
        nothing = [np.zeros_like(operand) for operand in operands]  # only the first call's operands are copied
        given = [operands, *[nothing] * 6]
        found_each = [rotating["main"](*each).to_host() for each in given]
        results.append([bool((each == expected).all()) for each in found_each])

    assert results[0] == [True] * 7
    assert results[1] == [True, False, False, True, False, False, True]


NET = """\
module @net {
  func.func @"my fn"(%a: tensor<?x4xf32>, %n: i32, %b: tensor<4xf32>) -> (tensor<?x4xf32>, i32) {
    %zero = arith.constant 0 : index
    %rows = tensor.dim %a, %zero : tensor<?x4xf32>
    %empty = tensor.empty(%rows) : tensor<?x4xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
        affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
        ins(%a, %b : tensor<?x4xf32>, tensor<4xf32>) outs(%empty : tensor<?x4xf32>) {
    ^bb0(%x: f32, %y: f32, %out: f32):
      %added = arith.addf %x, %y : f32
      linalg.yield %added : f32
    } -> tensor<?x4xf32>
    %square = arith.muli %n, %n : i32
    return %sum, %square : tensor<?x4xf32>, i32
  }
}
"""
OF_NET = Declaration(("?x4xf32", "i32", "4xf32"), ("?x4xf32", "i32"))


@pytest.mark.iree
def test_a_module_with_dynamic_sizes_numbers_and_two_results_is_rotated(tmp_path: Path) -> None:
    # Later calls use copies of the first call's tensors, but their own numbers.
    import iree.runtime

    workspace = Workspace(tmp_path, {"m": "4", "n": "4", "k": "4", "threads": "1"})
    flags = TARGETS["llvm-cpu"].resolved_flags(workspace.resolver.host, workspace.resolver.syntax)
    found = rotating_inputs.of_module("net", "my fn", OF_NET, ("6x4xf32", "=7", "4xf32"), 100)
    assert found is not None
    assert [operand.cold for operand in found.operands] == [True, False, True]
    assert found.count == 2
    texts = [NET, rotating_inputs.module(found)]
    made = [workspace.executor.compile_module(text.encode(), flags) for text in texts]
    config = iree.runtime.Config("local-sync")
    loaded = [
        iree.runtime.VmModule.copy_buffer(config.vm_instance, workspace.store.path(record.outputs["vmfb"]).read_bytes())
        for record in made
    ]
    _, rotating = iree.runtime.load_vm_modules(*loaded, config=config)
    first = np.arange(24, dtype=np.float32).reshape(6, 4), np.ones(4, np.float32)

    for number in range(4):
        given = first if number == 0 else (np.zeros((6, 4), np.float32), np.zeros(4, np.float32))
        result, square = rotating["my fn"](given[0], number, given[1])
        assert (result.to_host() == first[0] + 1).all()
        assert square == number**2


@pytest.mark.iree
def test_a_module_is_measured_cold_and_a_stateful_one_fails_with_the_reason(copied: Project) -> None:
    (copied.root / "net.mlir").write_text(NET)
    (copied.root / "state.mlir").write_text(STATE)
    words = 'operation = "module"\ninputs = {}\nfile = "../{}.mlir"\nthreads = 1\ncache = ["hot", "cold"]\n'
    given = ['["6x4xf32", "7", "4xf32"]', '["4xf32"]']
    text = "".join(f"[[sweep]]\n{words.format(i, name)}" for i, name in zip(given, ("net", "state"), strict=True))
    (copied.root / "specs/cold.toml").write_text(text)

    outcome = copied.doit("protocol=fast", "profile:module_*")

    assert outcome.code == 1, str(outcome)
    assert "not coldable: the module stores to @kept, so its calls differ in more than their inputs" in outcome.out
    rows = {row["case"].partition("_default")[0] + row["cache"]: row for row in copied.rows()}
    hot, cold = rows["module_net_my-fnhot"], rows["module_net_my-fncold"]
    assert hot["code_digest"] == cold["code_digest"]
    assert len(cold["blocks_ns"]) >= 6
    assert copied.doit("protocol=fast", "profile:module_net*").out.splitlines()[-1].startswith("2 cases: up to date")
    assert "no times: the sites of a call are measured with hot inputs" in copied.doit(f"sites:{cold['case']}").out
    view = copied.root / "build" / cold["case"]
    subprocess.run([view / "repro.sh", "benchmark"], check=True, timeout=LIMIT_S, env=environment({}))


STATE = """\
util.global private mutable @kept = dense<0.0> : tensor<4xf32>
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %before = util.global.load @kept : tensor<4xf32>
  %sum = arith.addf %a, %before : tensor<4xf32>
  util.global.store %sum, @kept : tensor<4xf32>
  return %sum : tensor<4xf32>
}
"""


def test_a_module_that_cannot_be_cold_has_a_reason() -> None:
    def problem(callee: str = "net", inputs: str = "4xf32", stored: tuple[str, ...] = (), flags: str = "") -> str:
        found = rotating_inputs.of_module(callee, "main", Declaration((inputs,), ()), (inputs,), 2**20)
        return rotating_inputs.module_problem(found, stored, [flags]) or ""

    assert problem() == ""
    assert "no input is a tensor" in problem(inputs="i32")
    assert "no input is a tensor" in problem(inputs="0x4xf32")
    assert "stores to @a, @b" in problem(stored=("a", "b"))
    assert "has a dot" in problem(callee="net.v1")
    assert "takes fences" in problem(flags="--iree-execution-model=async-external")


def test_copies_take_twice_the_cache_and_are_two_at_least() -> None:
    small, large = OPERATIONS["matmul"].make((4, 5, 6)), OPERATIONS["matmul"].make((512, 512, 512))
    assert rotating_inputs.of_operation(small, 2**20).count == 2**21 // (128 + 128)
    assert rotating_inputs.of_operation(large, 2**20).count == 2


@pytest.mark.parametrize(
    ("target", "cache_bytes", "memory_bytes", "reason"),
    [
        ("llvm-cpu", 2**25, 2**33, None),
        ("llvm-cpu", None, 2**33, "not coldable: the system does not report the size of the last-level cache"),
        ("llvm-cpu", 480 * 2**20, 2**31, "not coldable: 960 MiB of input copies"),
        ("vulkan", 2**25, 2**33, "not coldable: the size of the last cache of vulkan devices is not known"),
    ],
)
def test_a_case_that_cannot_be_cold_has_a_reason(
    target: str, cache_bytes: int | None, memory_bytes: int, reason: str | None
) -> None:
    matmul = OPERATIONS["matmul"].make((64, 64, 64))
    found = rotating_inputs.not_coldable(matmul, None, TARGETS[target], cache_bytes, memory_bytes)
    assert found == reason if reason is None else (found or "").startswith(reason)


def test_rotation_is_the_golden_one(golden: Any) -> None:
    golden("rotation.mlir", rotating_inputs.module(three_of(OPERATIONS["matmul"].make((4, 5, 6)))))
