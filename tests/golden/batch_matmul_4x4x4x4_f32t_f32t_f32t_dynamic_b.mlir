module @dispatch {
  func.func @main(%arg0: tensor<?x4x4xf32> loc(unknown), %arg1: tensor<?x4x4xf32> loc(unknown)) -> tensor<?x4x4xf32> {
    %axis_b = arith.constant 0 : index loc(unknown)
    %b = tensor.dim %arg0, %axis_b : tensor<?x4x4xf32> loc(unknown)
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty(%b) : tensor<?x4x4xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x4x4xf32>) -> tensor<?x4x4xf32> loc(unknown)
    %sum = linalg.batch_matmul ins(%arg0, %arg1 : tensor<?x4x4xf32>, tensor<?x4x4xf32>) outs(%init : tensor<?x4x4xf32>) -> tensor<?x4x4xf32> loc(unknown)
    return %sum : tensor<?x4x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
