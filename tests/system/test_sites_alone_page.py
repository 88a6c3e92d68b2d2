"""The commands of docs/sites-alone.md give the documented result with the real compiler and runtime."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from support.project import REPOSITORY, Project
from support.tools import compiler_folder, runtime_folder

pytestmark = pytest.mark.iree

SITES = 10


def program() -> str:
    """Return a module with a chain of ten matrix products.

    A different number is added to each product, so that no two sites of the program are equal."""
    lines = [
        f"""
  %m{i} = linalg.matmul ins(%x{i - 1}, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  %c{i} = arith.constant dense<{i}.5> : tensor<4x8xf32>
  %x{i} = arith.addf %m{i}, %c{i} : tensor<4x8xf32>"""
        for i in range(1, SITES + 1)
    ]
    return f"""func.func @main(%x0: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>{"".join(lines)}
  return %x{SITES} : tensor<4x8xf32>
}}
"""


def test_the_commands_of_the_page_give_the_bits_of_the_program(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/sites-alone.md").read_text()
    block = re.search(r"## Extract\n\n```sh\n(.*?)```", page, re.DOTALL)
    assert block is not None
    extract, measure, run = map(shlex.split, block[1].splitlines())
    project = Project.make(tmp_path / "p")
    (project.root / "net.mlir").write_text(program())

    made = project.doit(*extract[1:])
    verified = project.doit(*(word.replace("profile:", "verify:") for word in measure[1:]))
    path = f"{compiler_folder()}:{runtime_folder()}:/usr/bin:/bin"
    ran = subprocess.run(run, cwd=project.root, env={"PATH": path}, capture_output=True, text=True, check=False)

    assert made.code == 0 and "s10.mlir" in made.out, made
    assert verified.code == 0 and "2 cases: 2 emitted, 2 compiled, 2 verified" in verified.out, verified
    errors = project.query("select facts ->> 'score' from record where stage = 'verify'")
    assert errors == [(0,), (0,)]
    assert ran.stdout == "s01: the same bits as expected\ns10: the same bits as expected\n", ran
