module @dispatch {
  func.func @main(%arg0: tensor<5x3xf16> loc(unknown), %arg1: tensor<5x4xf16> loc(unknown)) -> tensor<3x4xf32> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<3x4xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<3x4xf32>) -> tensor<3x4xf32> loc(unknown)
    %sum = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<5x3xf16>, tensor<5x4xf16>) outs(%init : tensor<3x4xf32>) {
    ^bb0(%left: f16 loc(unknown), %right: f16 loc(unknown), %so_far: f32 loc(unknown)):
      %wide_left = arith.extf %left : f16 to f32 loc(unknown)
      %wide_right = arith.extf %right : f16 to f32 loc(unknown)
      %term = arith.mulf %wide_left, %wide_right : f32 loc(unknown)
      %next = arith.addf %so_far, %term : f32 loc(unknown)
      linalg.yield %next : f32 loc(unknown)
    } -> tensor<3x4xf32> loc(unknown)
    return %sum : tensor<3x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
