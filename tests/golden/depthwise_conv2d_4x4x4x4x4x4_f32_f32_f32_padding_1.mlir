module @dispatch {
  func.func @main(%arg0: tensor<4x4x4x4xf32> loc(unknown), %arg1: tensor<4x4x4xf32> loc(unknown)) -> tensor<4x3x3x4xf32> {
    %border = arith.constant 0.0 : f32 loc(unknown)
    %padded = tensor.pad %arg0 low[0, 1, 1, 0] high[0, 1, 1, 0] {
    ^bb0(%i0: index loc(unknown), %i1: index loc(unknown), %i2: index loc(unknown), %i3: index loc(unknown)):
      tensor.yield %border : f32 loc(unknown)
    } : tensor<4x4x4x4xf32> to tensor<4x6x6x4xf32> loc(unknown)
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4x3x3x4xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x3x3x4xf32>) -> tensor<4x3x3x4xf32> loc(unknown)
    %sum = linalg.depthwise_conv_2d_nhwc_hwc {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%padded, %arg1 : tensor<4x6x6x4xf32>, tensor<4x4x4xf32>) outs(%init : tensor<4x3x3x4xf32>) -> tensor<4x3x3x4xf32> loc(unknown)
    return %sum : tensor<4x3x3x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
