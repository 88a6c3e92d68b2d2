"""A small test suite like IREE's: each test is a folder with a module and a flag file."""

from pathlib import Path

import numpy as np

X = np.arange(-4, 4, dtype="float32").reshape(2, 4)
ADD = """\
func.func @{name}(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {{
  %0 = arith.addf %x, %x : tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}}
"""
SCALAR = """\
func.func @scalar(%x: tensor<f32>) -> tensor<f32> {
  %0 = arith.addf %x, %x : tensor<f32>
  return %0 : tensor<f32>
}
"""
SEVERAL = """\
func.func @several(%x: tensor<2x4xf32>, %n: tensor<4xi64>) -> (tensor<2x4xf32>, tensor<4xi64>, tensor<4xi1>) {
  %0 = arith.addf %x, %x : tensor<2x4xf32>
  %1 = arith.addi %n, %n : tensor<4xi64>
  %2 = arith.cmpi eq, %n, %1 : tensor<4xi64>
  return %0, %1, %2 : tensor<2x4xf32>, tensor<4xi64>, tensor<4xi1>
}
"""
FLAGS = "--input=2x4xf32=@input_0.bin\n--expected_output=2x4xf32=@output_0.bin\n"


def folder(root: Path, name: str, module: str | None, flags: str | None, **arrays: np.ndarray) -> Path:
    (place := root / name).mkdir(parents=True)
    if module is not None:
        (place / "model.mlir").write_text(module)
    if flags is not None:
        (place / "run_module_io_flags.txt").write_text(flags)
    for file, array in arrays.items():
        (place / f"{file}.bin").write_bytes(array.tobytes())
    return place


def make(root: Path) -> Path:
    """Make a folder in `root` for each of eight tests, and return `root`.

    Three tests have no error. Each of the other five has one error: a wrong result, a module that does not compile,
    a wrong flag, no flag file, or no module."""
    two = {"input_0": X, "output_0": X * 2}
    folder(root, "right", ADD.format(name="right"), FLAGS, **two)
    folder(root, "wrong", ADD.format(name="wrong"), FLAGS, input_0=X, output_0=X * 3)
    folder(root, "broken", "func.func @broken(%x: tensor<2x4xf32>) -> tensor<2x4xf32> { oops }\n", FLAGS, **two)
    scalar = "--input=f32=@input_0.bin\n--expected_output=f32=@output_0.bin\n"
    folder(root, "scalar", SCALAR, scalar, input_0=X[0, 0], output_0=X[0, 0] * 2)
    several = """\
# IREE's own tools read this too
--module=model.vmfb
--device=local-task
--function=several
--input=2x4xf32=@input_0.bin
--input=4xi64=[1 2][0 4]
--expected_output=2x4xf32=@output_0.bin
--expected_output=4xi64=@output_1.bin
--expected_output=4xi1=@output_2.bin
"""
    doubled, same = np.array([2, 4, 0, 8], "int64"), np.array([False, False, True, False])
    folder(root, "several", SEVERAL, several, **two, output_1=doubled, output_2=same)
    folder(root, "odd_flag", ADD.format(name="odd_flag"), f"--inputs=5\n{FLAGS}", **two)
    folder(root, "no_flags", ADD.format(name="no_flags"), None, **two)
    folder(root, "no_module", None, FLAGS, **two)
    return root
