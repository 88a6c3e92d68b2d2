module @dispatch {
  func.func @main(%arg0: tensor<4x4xf32> loc(unknown)) -> tensor<4x4xf32> {
    %empty = tensor.empty() : tensor<4x4xf32> loc(unknown)
    %all = linalg.softmax dimension(1) ins(%arg0 : tensor<4x4xf32>) outs(%empty : tensor<4x4xf32>) -> tensor<4x4xf32> loc(unknown)
    return %all : tensor<4x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
