module @dispatch {
  func.func @main(%arg0: tensor<4x6xf64> loc(unknown), %arg1: tensor<6x5xf64> loc(unknown)) -> tensor<4x5xf64> {
    %zero = arith.constant 0.0 : f64 loc(unknown)
    %empty = tensor.empty() : tensor<4x5xf64> loc(unknown)
    %init = linalg.fill ins(%zero : f64) outs(%empty : tensor<4x5xf64>) -> tensor<4x5xf64> loc(unknown)
    %sum = linalg.matmul ins(%arg0, %arg1 : tensor<4x6xf64>, tensor<6x5xf64>) outs(%init : tensor<4x5xf64>) -> tensor<4x5xf64> loc(unknown)
    return %sum : tensor<4x5xf64> loc(unknown)
  } loc(unknown)
} loc(unknown)
