module @dispatch {
  func.func @main(%arg0: tensor<4x4xf32> loc(unknown), %arg1: tensor<4xf32> loc(unknown), %arg2: tensor<4xf32> loc(unknown)) -> tensor<4xf32> {
    %sum = linalg.matvec ins(%arg0, %arg1 : tensor<4x4xf32>, tensor<4xf32>) outs(%arg2 : tensor<4xf32>) -> tensor<4xf32> loc(unknown)
    return %sum : tensor<4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
