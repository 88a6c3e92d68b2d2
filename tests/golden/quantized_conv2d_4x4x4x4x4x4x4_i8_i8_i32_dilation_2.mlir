module @dispatch {
  func.func @main(%arg0: tensor<4x4x4x4xi8> loc(unknown), %arg1: tensor<4x4x4x4xi8> loc(unknown)) -> tensor<4x-2x-2x4xi32> {
    %zero = arith.constant 0 : i32 loc(unknown)
    %empty = tensor.empty() : tensor<4x-2x-2x4xi32> loc(unknown)
    %init = linalg.fill ins(%zero : i32) outs(%empty : tensor<4x-2x-2x4xi32>) -> tensor<4x-2x-2x4xi32> loc(unknown)
    %scalar0 = arith.constant -128 : i32 loc(unknown)
    %scalar1 = arith.constant 0 : i32 loc(unknown)
    %sum = linalg.conv_2d_nhwc_hwcf_q {dilations = dense<2> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%arg0, %arg1, %scalar0, %scalar1 : tensor<4x4x4x4xi8>, tensor<4x4x4x4xi8>, i32, i32) outs(%init : tensor<4x-2x-2x4xi32>) -> tensor<4x-2x-2x4xi32> loc(unknown)
    return %sum : tensor<4x-2x-2x4xi32> loc(unknown)
  } loc(unknown)
} loc(unknown)
