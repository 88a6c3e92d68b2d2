module @dispatch {
  func.func @main(%arg0: tensor<4x4xf32> loc(unknown)) -> tensor<4x4xf32> {
    %one = arith.constant 1.0 : f32 loc(unknown)
    %half = arith.constant 0.5 : f32 loc(unknown)
    %root_half = arith.constant 0.70710678118654752 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4x4xf32> loc(unknown)
    %all = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x4xf32>) outs(%empty : tensor<4x4xf32>) {
    ^bb0(%x: f32 loc(unknown), %unused: f32 loc(unknown)):
      %s = arith.mulf %x, %root_half : f32 loc(unknown)
      %e = math.erf %s : f32 loc(unknown)
      %d = arith.addf %e, %one : f32 loc(unknown)
      %h = arith.mulf %x, %half : f32 loc(unknown)
      %z = arith.mulf %h, %d : f32 loc(unknown)
      linalg.yield %z : f32 loc(unknown)
    } -> tensor<4x4xf32> loc(unknown)
    return %all : tensor<4x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
