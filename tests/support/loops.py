"""Write MLIR functions with loops that multiply a matrix by `%x`."""

from __future__ import annotations


def loop(name: str, value: str, count: str, size: int, label: str | None = None) -> str:
    """Return the MLIR text of a loop that multiplies the matrix `value` by `%x`, `count` times.

    `value` and `count` are names of MLIR values. `label` is the location of the loop's matmul."""
    kind = f"tensor<{size}x{size}xf32>"
    location = f' loc("{label}")' if label else ""
    return f"""
  %{name}:2 = scf.while (%a = {value}, %i = %c0) : ({kind}, i32) -> ({kind}, i32) {{
    %less = arith.cmpi slt, %i, {count} : i32
    scf.condition(%less) %a, %i : {kind}, i32
  }} do {{
  ^bb0(%a: {kind}, %i: i32):
    %f = linalg.fill ins(%z : f32) outs(%e : {kind}) -> {kind}
    %m = linalg.matmul ins(%a, %x : {kind}, {kind}) outs(%f : {kind}) -> {kind}{location}
    %j = arith.addi %i, %c1 : i32
    scf.yield %m, %j : {kind}, i32
  }}"""


def program(size: int, counts: tuple[str, ...], body: str, result: str) -> str:
    """Return the text of an MLIR function that contains `body`, such as loops that `loop` returned.

    The function has the matrix `%x` and the i32 numbers `counts` as arguments. It defines the constants that the loops
    use, and returns `result`."""
    kind, numbers = f"tensor<{size}x{size}xf32>", "".join(f", {count}: i32" for count in counts)
    return f"""func.func @main(%x: {kind}{numbers}) -> {kind} {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : {kind}{body}
  return {result} : {kind}
}}
"""
