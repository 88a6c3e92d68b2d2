module @dispatch {
  func.func @main(%arg0: tensor<4x4xf32> loc(unknown)) -> tensor<4xf32> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32> loc(unknown)
    %all = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (k)>], iterator_types = ["reduction", "parallel"]} ins(%arg0 : tensor<4x4xf32>) outs(%init : tensor<4xf32>) {
    ^bb0(%x: f32 loc(unknown), %so_far: f32 loc(unknown)):
      %next = arith.addf %so_far, %x : f32 loc(unknown)
      linalg.yield %next : f32 loc(unknown)
    } -> tensor<4xf32> loc(unknown)
    return %all : tensor<4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
