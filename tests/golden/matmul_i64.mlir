module @dispatch {
  func.func @main(%arg0: tensor<4x6xi64> loc(unknown), %arg1: tensor<6x5xi64> loc(unknown)) -> tensor<4x5xi64> {
    %zero = arith.constant 0 : i64 loc(unknown)
    %empty = tensor.empty() : tensor<4x5xi64> loc(unknown)
    %init = linalg.fill ins(%zero : i64) outs(%empty : tensor<4x5xi64>) -> tensor<4x5xi64> loc(unknown)
    %sum = linalg.matmul ins(%arg0, %arg1 : tensor<4x6xi64>, tensor<6x5xi64>) outs(%init : tensor<4x5xi64>) -> tensor<4x5xi64> loc(unknown)
    return %sum : tensor<4x5xi64> loc(unknown)
  } loc(unknown)
} loc(unknown)
