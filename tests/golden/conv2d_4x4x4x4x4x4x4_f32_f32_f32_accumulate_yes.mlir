module @dispatch {
  func.func @main(%arg0: tensor<4x4x4x4xf32> loc(unknown), %arg1: tensor<4x4x4x4xf32> loc(unknown), %arg2: tensor<4x1x1x4xf32> loc(unknown)) -> tensor<4x1x1x4xf32> {
    %sum = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%arg0, %arg1 : tensor<4x4x4x4xf32>, tensor<4x4x4x4xf32>) outs(%arg2 : tensor<4x1x1x4xf32>) -> tensor<4x1x1x4xf32> loc(unknown)
    return %sum : tensor<4x1x1x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
