"""An MLIR module with one function, as a user may have it in a file."""

from __future__ import annotations

MODULE = """\
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = arith.addf %a, %a : tensor<4xf32>
  return %b : tensor<4xf32>
}
"""
