module @dispatch {
  func.func @main(%arg0: tensor<4x4x4x4xf32> loc(unknown), %arg1: tensor<4x4x4x4xf32> loc(unknown), %arg2: tensor<4xf32> loc(unknown)) -> tensor<4x1x1x4xf32> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4x1x1x4xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x1x1x4xf32>) -> tensor<4x1x1x4xf32> loc(unknown)
    %sum = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%arg0, %arg1 : tensor<4x4x4x4xf32>, tensor<4x4x4x4xf32>) outs(%init : tensor<4x1x1x4xf32>) -> tensor<4x1x1x4xf32> loc(unknown)
    %slot = tensor.empty() : tensor<4x1x1x4xf32> loc(unknown)
    %out = linalg.generic {indexing_maps = [affine_map<(m, n, o, p) -> (m, n, o, p)>, affine_map<(m, n, o, p) -> (p)>, affine_map<(m, n, o, p) -> (m, n, o, p)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%sum, %arg2 : tensor<4x1x1x4xf32>, tensor<4xf32>) outs(%slot : tensor<4x1x1x4xf32>) {
    ^bb0(%t: f32 loc(unknown), %p: f32 loc(unknown), %unused: f32 loc(unknown)):
      %z = arith.addf %t, %p : f32 loc(unknown)
      linalg.yield %z : f32 loc(unknown)
    } -> tensor<4x1x1x4xf32> loc(unknown)
    return %out : tensor<4x1x1x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
