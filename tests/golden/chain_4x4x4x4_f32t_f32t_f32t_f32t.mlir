module @dispatch {
  func.func @main(%arg0: tensor<4x4xf32> loc(unknown), %arg1: tensor<4x4xf32> loc(unknown), %arg2: tensor<4x4xf32> loc(unknown)) -> tensor<4x4xf32> {
    %first_zero = arith.constant 0.0 : f32 loc(unknown)
    %first_empty = tensor.empty() : tensor<4x4xf32> loc(unknown)
    %first_init = linalg.fill ins(%first_zero : f32) outs(%first_empty : tensor<4x4xf32>) -> tensor<4x4xf32> loc(unknown)
    %first = linalg.matmul ins(%arg0, %arg1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%first_init : tensor<4x4xf32>) -> tensor<4x4xf32> loc(unknown)
    %second_zero = arith.constant 0.0 : f32 loc(unknown)
    %second_empty = tensor.empty() : tensor<4x4xf32> loc(unknown)
    %second_init = linalg.fill ins(%second_zero : f32) outs(%second_empty : tensor<4x4xf32>) -> tensor<4x4xf32> loc(unknown)
    %second = linalg.matmul ins(%first, %arg2 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%second_init : tensor<4x4xf32>) -> tensor<4x4xf32> loc(unknown)
    return %second : tensor<4x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
