module @dispatch {
  func.func @main(%arg0: tensor<4x6xf32> loc(unknown), %arg1: tensor<6x5xf32> loc(unknown)) -> tensor<4x5xf32> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4x5xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x5xf32>) -> tensor<4x5xf32> loc(unknown)
    %sum = linalg.matmul ins(%arg0, %arg1 : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32> loc(unknown)
    return %sum : tensor<4x5xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
