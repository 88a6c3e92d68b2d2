module @dispatch {
  func.func @main(%arg0: tensor<4x6xi4> loc(unknown), %arg1: tensor<6x5xi4> loc(unknown)) -> tensor<4x5xi32> {
    %zero = arith.constant 0 : i32 loc(unknown)
    %empty = tensor.empty() : tensor<4x5xi32> loc(unknown)
    %init = linalg.fill ins(%zero : i32) outs(%empty : tensor<4x5xi32>) -> tensor<4x5xi32> loc(unknown)
    %sum = linalg.matmul ins(%arg0, %arg1 : tensor<4x6xi4>, tensor<6x5xi4>) outs(%init : tensor<4x5xi32>) -> tensor<4x5xi32> loc(unknown)
    return %sum : tensor<4x5xi32> loc(unknown)
  } loc(unknown)
} loc(unknown)
