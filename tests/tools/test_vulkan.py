"""Cases run correctly with lavapipe, a Vulkan driver for the CPU.

The tests download lavapipe."""

import json
import subprocess

import numpy as np
import pytest
from support import lavapipe
from support.module_operand import X
from support.project import REPOSITORY, Project, sweep
from support.tools import environment, write_script


@pytest.fixture(scope="session")
def vulkan() -> dict[str, str]:
    """Return environment variables that make lavapipe a Vulkan device; skip the test without lavapipe."""
    try:
        return lavapipe.environment(REPOSITORY / ".lavapipe")
    except lavapipe.Unavailable as error:
        pytest.skip(f"no Vulkan here: {error}")


@pytest.mark.iree
def test_vulkan_is_verified_and_measured(vulkan, tmp_path):
    project = Project.make(tmp_path / "p", sweep(m=24, n=16, k=40, target="vulkan", threads=[1, 2]))
    outcome = project.doit("protocol=fast", **vulkan)
    rows = project.rows()
    assert outcome.code == 0, str(outcome)
    assert len(rows) == 1  # cases for Vulkan have no number of threads
    assert {row["verification"] for row in rows} == {"within bound"}
    assert all(row["median_ns"] > 0 and row["device"].startswith("vulkan://") for row in rows)
    assert all(0 < row["percent_of_peak"] < 100 for row in rows)  # the device was calibrated
    # The target's own anchors ran on the device. A row shows them only if there are enough blocks for an interval.
    session = (
        "select conditions ->> '$.session.anchors_ns' from measurement where ingredients ->> '$.protocol' like 'fast%'"
    )
    assert [len(json.loads(anchors)) for (anchors,) in project.query(session)] == [2]
    assert "up to date" in project.doit("protocol=fast", **vulkan).out
    repeated = subprocess.run(
        [project.root / f"build/{rows[0]['case']}/repro.sh", "benchmark"],
        env=environment(vulkan), capture_output=True, text=True,
    )  # fmt: skip
    assert repeated.returncode == 0, repeated.stderr


NORM = """\
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %eps = arith.constant 1.0e-05 : f64
  %n = arith.constant 8.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.reduce ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) dimensions = [1]
    (%a: f32, %b: f32) {
      %s = arith.mulf %a, %a : f32
      %t = arith.addf %s, %b : f32
      linalg.yield %t : f32
    }
  %o = tensor.empty() : tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<4x8xf32>, tensor<4xf32>) outs(%o : tensor<4x8xf32>) {
    ^bb0(%a: f32, %s: f32, %out: f32):
      %mean = arith.divf %s, %n : f32
      %eps32 = arith.truncf %eps : f64 to f32
      %v = arith.addf %mean, %eps32 : f32
      %q = math.rsqrt %v : f32
      %y = arith.mulf %a, %q : f32
      linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
"""
"""A module of a root-mean-square norm whose epsilon is in f64, as PyTorch's exporters write it."""


@pytest.mark.iree
def test_f64_that_vulkan_cannot_compile_is_right_when_it_is_demoted(vulkan, tmp_path):
    project = Project.make(tmp_path / "p")
    (project.root / "norm.mlir").write_text(NORM)
    np.save(project.root / "x.npy", X)
    words = ("file=norm.mlir", "inputs=@x.npy", "reference=llvm-cpu", "target=vulkan")
    outcome = project.doit(*words, "flags=;--iree-input-demote-f64-to-f32=true", "verify", **vulkan)
    assert outcome.code == 1
    assert "verify module_norm_main_default+input-demote-f64-to-f32.true@vulkan" in outcome.out, str(outcome)
    assert "compile module_norm_main_default@vulkan FAILED: compile failed: failed to legalize operation" in outcome.out
    assert "1 failed" in outcome.out
    rows = project.query("select ok, json_extract(facts, '$.verification') from record where stage = 'verify'")
    assert rows == [(1, "within bound")]


@pytest.mark.iree
def test_a_function_of_f64_is_compared_and_located_on_vulkan_when_it_is_demoted(vulkan, tmp_path):
    project = Project.make(tmp_path / "p")
    (project.root / "half.mlir").write_text("""\
func.func @main(%x: tensor<4x8xf64>) -> tensor<4x8xf64> {
  %half = arith.constant dense<0.3> : tensor<4x8xf64>
  %y = arith.mulf %x, %half : tensor<4x8xf64>
  return %y : tensor<4x8xf64>
}
""")
    words = ("file=half.mlir", "reference=llvm-cpu", "target=vulkan", "flags=--iree-input-demote-f64-to-f32=true")
    outcome = project.doit(*words, "verify", **vulkan)
    assert outcome.code == 0 and "1 verified" in outcome.out, str(outcome)
    located = project.doit(*words, "locate", **vulkan)
    assert located.code == 0 and located.out.startswith("no site is wrong\n"), str(located)
    flags = [json.loads(text) for (text,) in project.query(COMPILED_FOR_CPU)]
    assert len(flags) == 2 and all("--iree-input-demote-f64-to-f32=true" in each for each in flags)


COMPILED_FOR_CPU = """\
select ingredients ->> '$.flags' from record
where stage = 'compile' and ingredients ->> '$.flags' like '%backends=llvm-cpu%' """
"""An SQL query for the compiler flags of all modules that were compiled for the CPU.

The test that uses the query runs a function of f64 on Vulkan. Two modules are compiled for the CPU there, to
compute expected results: the user's module, and one that contains only its single site (the launch of a dispatch)."""

VULKAN = {
    "matmul": ({"shape": "33x65x40", "layout": "tt,tn,nt,nn", "accumulate": "no,yes"}, 8),
    "conv2d": ({"shape": "2x11x9x5x6x3x2", "stride": "1,2", "padding": "0,1"}, 4),
    "softmax": ({"shape": "17x130"}, 1),
    "tiles": ({"operation": "matmul", "shape": "96x80x66,7x9x3", "tuning": "base_vectorize_64x64_8x8x4"}, 2),
}


@pytest.mark.iree
@pytest.mark.parametrize("operation", VULKAN)
def test_operations_are_right_on_vulkan(operation, vulkan, tmp_path):
    words, count = VULKAN[operation]
    variables = [f"{word}={value}" for word, value in {"operation": operation, "target": "vulkan", **words}.items()]
    project = Project.make(tmp_path / "p")

    outcome = project.doit(*variables, "verify", **vulkan)

    assert outcome.code == 0, str(outcome)
    verified = [
        json.loads(facts)["verification"]
        for (facts,) in project.query("select facts from record where stage = 'verify'")
    ]
    assert verified == ["within bound"] * count  # exact inputs, if any, are compared bit by bit


def test_lavapipe_is_its_libraries_and_their_dependencies():
    needs = """\
libvulkan1
  Depends: libc6
    Depends: libx11-6
mesa-vulkan-drivers
  Depends: python3
 |Depends: libllvm15
  Depends: <python3:any>
libx11-6
python3
  Depends: libssl3
libllvm15
  PreDepends: libz3-4
"""
    assert lavapipe._libraries(needs) == ["libllvm15", "libvulkan1", "libx11-6", "libz3-4", "mesa-vulkan-drivers"]


@pytest.mark.parametrize(
    ("apt", "says"),
    [
        (None, "there is no apt here"),
        ("echo 'E: Failed to fetch http://x  Could not resolve x' >&2; exit 100", "Could not resolve"),
        ("echo 'W: Failed to fetch http://x  Could not resolve x' >&2", "Could not resolve"),
    ],
)
def test_lavapipe_that_is_not_available_is_an_error_with_the_reason_and_leaves_nothing(
    apt, says, tmp_path, monkeypatch
):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("apt-get", "apt-cache", "dpkg-deb") if apt else ():
        write_script(tools / name, apt)
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(lavapipe.Unavailable, match=says):
        lavapipe.environment(tmp_path / "lavapipe")
    assert not list((tmp_path / "lavapipe").iterdir())
