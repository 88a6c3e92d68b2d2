module @dispatch {
  func.func @main(%arg0: tensor<32x1x32xf8E4M3FN> loc(unknown), %arg1: tensor<32x1x32xf8E4M3FN> loc(unknown), %arg2: tensor<32x1xf8E8M0FNU> loc(unknown), %arg3: tensor<32x1xf8E8M0FNU> loc(unknown)) -> tensor<32x32xf32> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<32x32xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<32x32xf32>) -> tensor<32x32xf32> loc(unknown)
    %sum = linalg.generic {indexing_maps = [affine_map<(m, n, k, i) -> (m, k, i)>, affine_map<(m, n, k, i) -> (n, k, i)>, affine_map<(m, n, k, i) -> (m, k)>, affine_map<(m, n, k, i) -> (n, k)>, affine_map<(m, n, k, i) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0, %arg1, %arg2, %arg3 : tensor<32x1x32xf8E4M3FN>, tensor<32x1x32xf8E4M3FN>, tensor<32x1xf8E8M0FNU>, tensor<32x1xf8E8M0FNU>) outs(%init : tensor<32x32xf32>) {
    ^bb0(%a: f8E4M3FN loc(unknown), %b: f8E4M3FN loc(unknown), %a_scale: f8E8M0FNU loc(unknown), %b_scale: f8E8M0FNU loc(unknown), %so_far: f32 loc(unknown)):
      %a_wide = arith.scaling_extf %a, %a_scale : f8E4M3FN, f8E8M0FNU to f32 loc(unknown)
      %b_wide = arith.scaling_extf %b, %b_scale : f8E4M3FN, f8E8M0FNU to f32 loc(unknown)
      %term = arith.mulf %a_wide, %b_wide : f32 loc(unknown)
      %next = arith.addf %so_far, %term : f32 loc(unknown)
      linalg.yield %next : f32 loc(unknown)
    } -> tensor<32x32xf32> loc(unknown)
    return %sum : tensor<32x32xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
