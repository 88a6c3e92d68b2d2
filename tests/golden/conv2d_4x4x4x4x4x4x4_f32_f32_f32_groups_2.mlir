module @dispatch {
  func.func @main(%arg0: tensor<4x4x4x4xf32> loc(unknown), %arg1: tensor<4x4x2x4xf32> loc(unknown)) -> tensor<4x1x1x4xf32> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4x1x1x4xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x1x1x4xf32>) -> tensor<4x1x1x4xf32> loc(unknown)
    %image = tensor.expand_shape %arg0 [[0], [1], [2], [3, 4]] output_shape [4, 4, 4, 2, 2] : tensor<4x4x4x4xf32> into tensor<4x4x4x2x2xf32> loc(unknown)
    %weights = tensor.expand_shape %arg1 [[0], [1], [2], [3, 4]] output_shape [4, 4, 2, 2, 2] : tensor<4x4x2x4xf32> into tensor<4x4x2x2x2xf32> loc(unknown)
    %begun = tensor.expand_shape %init [[0], [1], [2], [3, 4]] output_shape [4, 1, 1, 2, 2] : tensor<4x1x1x4xf32> into tensor<4x1x1x2x2xf32> loc(unknown)
    %groups = linalg.generic {indexing_maps = [affine_map<(n, p, q, g, f, i, j, c) -> (n, p * 1 + i * 1, q * 1 + j * 1, g, c)>, affine_map<(n, p, q, g, f, i, j, c) -> (i, j, c, g, f)>, affine_map<(n, p, q, g, f, i, j, c) -> (n, p, q, g, f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%image, %weights : tensor<4x4x4x2x2xf32>, tensor<4x4x2x2x2xf32>) outs(%begun : tensor<4x1x1x2x2xf32>) {
    ^bb0(%a: f32 loc(unknown), %b: f32 loc(unknown), %so_far: f32 loc(unknown)):
      %term = arith.mulf %a, %b : f32 loc(unknown)
      %next = arith.addf %so_far, %term : f32 loc(unknown)
      linalg.yield %next : f32 loc(unknown)
    } -> tensor<4x1x1x2x2xf32> loc(unknown)
    %sum = tensor.collapse_shape %groups [[0], [1], [2], [3, 4]] : tensor<4x1x1x2x2xf32> into tensor<4x1x1x4xf32> loc(unknown)
    return %sum : tensor<4x1x1x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
