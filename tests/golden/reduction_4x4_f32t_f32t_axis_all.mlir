module @dispatch {
  func.func @main(%arg0: tensor<4x4xf32> loc(unknown)) -> tensor<f32> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<f32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<f32>) -> tensor<f32> loc(unknown)
    %all = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> ()>], iterator_types = ["reduction", "reduction"]} ins(%arg0 : tensor<4x4xf32>) outs(%init : tensor<f32>) {
    ^bb0(%x: f32 loc(unknown), %so_far: f32 loc(unknown)):
      %next = arith.addf %so_far, %x : f32 loc(unknown)
      linalg.yield %next : f32 loc(unknown)
    } -> tensor<f32> loc(unknown)
    return %all : tensor<f32> loc(unknown)
  } loc(unknown)
} loc(unknown)
