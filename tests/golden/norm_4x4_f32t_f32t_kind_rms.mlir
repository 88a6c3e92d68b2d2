module @dispatch {
  func.func @main(%arg0: tensor<4x4xf32> loc(unknown), %arg1: tensor<4xf32> loc(unknown)) -> tensor<4x4xf32> {
    %count = arith.constant 4.0 : f32 loc(unknown)
    %epsilon = arith.constant 7.62939453125e-06 : f32 loc(unknown)
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32> loc(unknown)
    %empty_out = tensor.empty() : tensor<4x4xf32> loc(unknown)
    %squares = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<4x4xf32>) outs(%init : tensor<4xf32>) {
    ^bb0(%x: f32 loc(unknown), %so_far: f32 loc(unknown)):
      %square = arith.mulf %x, %x : f32 loc(unknown)
      %next = arith.addf %so_far, %square : f32 loc(unknown)
      linalg.yield %next : f32 loc(unknown)
    } -> tensor<4xf32> loc(unknown)
    %all = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%arg0, %squares, %arg1 : tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>) outs(%empty_out : tensor<4x4xf32>) {
    ^bb0(%x: f32 loc(unknown), %v: f32 loc(unknown), %scale: f32 loc(unknown), %unused: f32 loc(unknown)):
      %variance = arith.divf %v, %count : f32 loc(unknown)
      %w = arith.addf %variance, %epsilon : f32 loc(unknown)
      %r = math.rsqrt %w : f32 loc(unknown)
      %unit = arith.mulf %x, %r : f32 loc(unknown)
      %scaled = arith.mulf %unit, %scale : f32 loc(unknown)
      linalg.yield %scaled : f32 loc(unknown)
    } -> tensor<4x4xf32> loc(unknown)
    return %all : tensor<4x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
