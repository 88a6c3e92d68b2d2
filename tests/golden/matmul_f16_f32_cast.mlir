module @dispatch {
  func.func @main(%arg0: tensor<4x6xf16> loc(unknown), %arg1: tensor<6x5xf16> loc(unknown)) -> tensor<4x5xf16> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4x5xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x5xf32>) -> tensor<4x5xf32> loc(unknown)
    %sum = linalg.matmul ins(%arg0, %arg1 : tensor<4x6xf16>, tensor<6x5xf16>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32> loc(unknown)
    %slot = tensor.empty() : tensor<4x5xf16> loc(unknown)
    %out = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%sum : tensor<4x5xf32>) outs(%slot : tensor<4x5xf16>) {
    ^bb0(%t: f32 loc(unknown), %unused: f16 loc(unknown)):
      %y = arith.truncf %t : f32 to f16 loc(unknown)
      linalg.yield %y : f16 loc(unknown)
    } -> tensor<4x5xf16> loc(unknown)
    return %out : tensor<4x5xf16> loc(unknown)
  } loc(unknown)
} loc(unknown)
