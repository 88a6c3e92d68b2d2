module @dispatch {
  func.func @main(%arg0: tensor<4x4xf32> loc(unknown)) -> tensor<4x4xf32> {
    %empty = tensor.empty() : tensor<4x4xf32> loc(unknown)
    %all = linalg.transpose ins(%arg0 : tensor<4x4xf32>) outs(%empty : tensor<4x4xf32>) permutation = [1, 0] loc(unknown)
    return %all : tensor<4x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
