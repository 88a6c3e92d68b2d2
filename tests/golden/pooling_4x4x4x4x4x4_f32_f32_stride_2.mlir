module @dispatch {
  func.func @main(%arg0: tensor<4x4x4x4xf32> loc(unknown)) -> tensor<4x1x1x4xf32> {
    %window = tensor.empty() : tensor<4x4xf32> loc(unknown)
    %zero = arith.constant 0xFF800000 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4x1x1x4xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x1x1x4xf32>) -> tensor<4x1x1x4xf32> loc(unknown)
    %all = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%arg0, %window : tensor<4x4x4x4xf32>, tensor<4x4xf32>) outs(%init : tensor<4x1x1x4xf32>) -> tensor<4x1x1x4xf32> loc(unknown)
    return %all : tensor<4x1x1x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
