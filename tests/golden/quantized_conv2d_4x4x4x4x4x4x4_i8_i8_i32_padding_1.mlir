module @dispatch {
  func.func @main(%arg0: tensor<4x4x4x4xi8> loc(unknown), %arg1: tensor<4x4x4x4xi8> loc(unknown)) -> tensor<4x3x3x4xi32> {
    %border = arith.constant -128 : i8 loc(unknown)
    %padded = tensor.pad %arg0 low[0, 1, 1, 0] high[0, 1, 1, 0] {
    ^bb0(%i0: index loc(unknown), %i1: index loc(unknown), %i2: index loc(unknown), %i3: index loc(unknown)):
      tensor.yield %border : i8 loc(unknown)
    } : tensor<4x4x4x4xi8> to tensor<4x6x6x4xi8> loc(unknown)
    %zero = arith.constant 0 : i32 loc(unknown)
    %empty = tensor.empty() : tensor<4x3x3x4xi32> loc(unknown)
    %init = linalg.fill ins(%zero : i32) outs(%empty : tensor<4x3x3x4xi32>) -> tensor<4x3x3x4xi32> loc(unknown)
    %scalar0 = arith.constant -128 : i32 loc(unknown)
    %scalar1 = arith.constant 0 : i32 loc(unknown)
    %sum = linalg.conv_2d_nhwc_hwcf_q {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%padded, %arg1, %scalar0, %scalar1 : tensor<4x6x6x4xi8>, tensor<4x4x4x4xi8>, i32, i32) outs(%init : tensor<4x3x3x4xi32>) -> tensor<4x3x3x4xi32> loc(unknown)
    return %sum : tensor<4x3x3x4xi32> loc(unknown)
  } loc(unknown)
} loc(unknown)
