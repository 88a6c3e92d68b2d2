"""`doit sites` names the operations of each site of a program, and accounts for all time of a call.

The times of the sites and the times outside them add up to the call's time. The compiler and the runtime are real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dispatchflow.models.site import Program
from dispatchflow.models.site_times import ProgramTimes
from tests.support.project import Project

pytestmark = pytest.mark.iree

T = "tensor<16x16xf32>"
E = f"%e = tensor.empty() : {T}\n"


def apply(result: str, operation: str, value: str, name: str) -> str:
    operands = f"ins(%{value} : {T}) outs(%e : {T})"
    return f'%{result} = linalg.elementwise <{operation}> {operands} -> {T} loc("{name}")\n'


def function(body: str, name: str = "main", kind: str = "func.func") -> str:
    return f"{kind} @{name}(%x: {T}) -> {T} {{\n{E}{body}}}\n"


SQUARE = function(apply("a", "exp", "x", "inner") + f"return %a : {T}\n", "inner", "func.func private")
PROGRAMS = {
    "two_functions": function(apply("a", "exp", "x", "other") + f"return %a : {T}\n", "other")
    + function(apply("a", "exp", "x", "mine") + f"return %a : {T}\n"),
    "unused": function(apply("a", "exp", "x", "used") + apply("b", "log", "a", "unused") + f"return %a : {T}\n"),
    "called_twice": SQUARE
    + function(
        f"%a = call @inner(%x) : ({T}) -> {T}\n%b = util.optimization_barrier %a : {T}\n"
        f"%c = call @inner(%b) : ({T}) -> {T}\nreturn %c : {T}\n"
    ),
    "stateful": f"util.global private mutable @s = dense<0.5> : {T}\n"
    + function(f"%a = util.global.load @s : {T}\n" + apply("b", "tanh", "a", "next")
               + f"util.global.store %b, @s : {T}\nreturn %b : {T}\n"),
}  # fmt: skip
TIMED = {"two_functions": ["mine"], "unused": ["used"], "called_twice": ["inner", "inner"], "stateful": ["next"]}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_programs_sites_add_up_to_the_call_and_have_their_operations_names(name: str, tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p")
    (project.root / "net.mlir").write_text(PROGRAMS[name])
    words = ("file=net.mlir", "function=main", "inputs=16x16xf32", "threads=1", "protocol=fast", "sites")
    found = project.doit(*words)
    assert found.code == 0, found
    assert ("stateful: it stores to @s, so calls may differ" in found.out) == (name == "stateful")
    outputs = json.loads(project.query("select outputs from record where stage = 'sites'")[0][0])
    program, times = (
        read(project, outputs[part], kind) for part, kind in (("sites", Program), ("times", ProgramTimes))
    )
    names = {each.number: each.name for each in program.operations}
    numbered = {site.number: [names[origin.operation] for origin in site.origins] for site in program.sites}
    assert [names for each in times.sites for number in each.sites for names in numbered[number]] == TIMED[name]
    assert all(len(each.sites) == 1 and each.executions == 1 for each in times.sites)
    split = times.split
    parts = [split.launching_ns, split.allocation_ns, split.waiting_ns, split.host_ns]
    assert sum(each.own_ns for each in times.sites) + sum(parts) == split.call_ns
    assert "1 case: up to date" in project.doit(*words).out


def read(project: Project, digest: str, kind: Any) -> Any:
    path = next(path for path in project.store.rglob(f"*{digest[-20:]}*") if path.is_file())
    return msgspec.json.decode(path.read_bytes(), type=kind)
