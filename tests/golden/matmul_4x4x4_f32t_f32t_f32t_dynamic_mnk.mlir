module @dispatch {
  func.func @main(%arg0: tensor<?x?xf32> loc(unknown), %arg1: tensor<?x?xf32> loc(unknown)) -> tensor<?x?xf32> {
    %axis_m = arith.constant 0 : index loc(unknown)
    %m = tensor.dim %arg0, %axis_m : tensor<?x?xf32> loc(unknown)
    %axis_n = arith.constant 1 : index loc(unknown)
    %n = tensor.dim %arg1, %axis_n : tensor<?x?xf32> loc(unknown)
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty(%m, %n) : tensor<?x?xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32> loc(unknown)
    %sum = linalg.matmul ins(%arg0, %arg1 : tensor<?x?xf32>, tensor<?x?xf32>) outs(%init : tensor<?x?xf32>) -> tensor<?x?xf32> loc(unknown)
    return %sum : tensor<?x?xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
