module @dispatch {
  func.func @main(%arg0: tensor<4x4x4xf32> loc(unknown), %arg1: tensor<4x4x4xf32> loc(unknown), %arg2: tensor<4x4x4xf32> loc(unknown)) -> tensor<4x4x4xf32> {
    %scale = arith.constant 0.5 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4x4x4xf32> loc(unknown)
    %all = "iree_linalg_ext.attention"(%arg0, %arg1, %arg2, %scale, %empty) <{indexing_maps = [affine_map<(b, m, n, k, l) -> (b, m, k)>, affine_map<(b, m, n, k, l) -> (b, l, k)>, affine_map<(b, m, n, k, l) -> (b, l, n)>, affine_map<(b, m, n, k, l) -> ()>, affine_map<(b, m, n, k, l) -> (b, m, n)>]}> ({
    ^bb0(%score: f32 loc(unknown)):
      "iree_linalg_ext.yield"(%score) : (f32) -> () loc(unknown)
    }) : (tensor<4x4x4xf32>, tensor<4x4x4xf32>, tensor<4x4x4xf32>, f32, tensor<4x4x4xf32>) -> tensor<4x4x4xf32> loc(unknown)
    return %all : tensor<4x4x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
