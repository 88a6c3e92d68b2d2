module @dispatch {
  func.func @main(%arg0: tensor<4x4xf32> loc(unknown)) -> tensor<4x4xf32> {
    %least = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4x4xf32> loc(unknown)
    %all = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x4xf32>) outs(%empty : tensor<4x4xf32>) {
    ^bb0(%x: f32 loc(unknown), %unused: f32 loc(unknown)):
      %z = arith.maximumf %x, %least : f32 loc(unknown)
      linalg.yield %z : f32 loc(unknown)
    } -> tensor<4x4xf32> loc(unknown)
    return %all : tensor<4x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
