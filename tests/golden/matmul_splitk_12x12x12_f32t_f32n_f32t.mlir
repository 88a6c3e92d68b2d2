module @dispatch {
  func.func @main(%arg0: tensor<12x12xf32> loc(unknown), %arg1: tensor<12x12xf32> loc(unknown)) -> tensor<12x12xf32> {
    %sliced0 = tensor.expand_shape %arg0 [[0], [1, 2]] output_shape [12, 2, 6] : tensor<12x12xf32> into tensor<12x2x6xf32> loc(unknown)
    %sliced1 = tensor.expand_shape %arg1 [[0], [1, 2]] output_shape [12, 2, 6] : tensor<12x12xf32> into tensor<12x2x6xf32> loc(unknown)
    %parts_zero = arith.constant 0.0 : f32 loc(unknown)
    %parts_empty = tensor.empty() : tensor<2x12x12xf32> loc(unknown)
    %parts_init = linalg.fill ins(%parts_zero : f32) outs(%parts_empty : tensor<2x12x12xf32>) -> tensor<2x12x12xf32> loc(unknown)
    %parts = linalg.generic {indexing_maps = [affine_map<(s, m, n, k) -> (m, s, k)>, affine_map<(s, m, n, k) -> (n, s, k)>, affine_map<(s, m, n, k) -> (s, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%sliced0, %sliced1 : tensor<12x2x6xf32>, tensor<12x2x6xf32>) outs(%parts_init : tensor<2x12x12xf32>) {
    ^bb0(%a: f32 loc(unknown), %b: f32 loc(unknown), %so_far: f32 loc(unknown)):
      %term = arith.mulf %a, %b : f32 loc(unknown)
      %next = arith.addf %so_far, %term : f32 loc(unknown)
      linalg.yield %next : f32 loc(unknown)
    } -> tensor<2x12x12xf32> loc(unknown)
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<12x12xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<12x12xf32>) -> tensor<12x12xf32> loc(unknown)
    %sum = linalg.generic {indexing_maps = [affine_map<(s, m, n) -> (s, m, n)>, affine_map<(s, m, n) -> (m, n)>], iterator_types = ["reduction", "parallel", "parallel"]} ins(%parts : tensor<2x12x12xf32>) outs(%init : tensor<12x12xf32>) {
    ^bb0(%part: f32 loc(unknown), %so_far: f32 loc(unknown)):
      %next = arith.addf %so_far, %part : f32 loc(unknown)
      linalg.yield %next : f32 loc(unknown)
    } -> tensor<12x12xf32> loc(unknown)
    return %sum : tensor<12x12xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
