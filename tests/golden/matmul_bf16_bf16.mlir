module @dispatch {
  func.func @main(%arg0: tensor<4x6xbf16> loc(unknown), %arg1: tensor<6x5xbf16> loc(unknown)) -> tensor<4x5xbf16> {
    %zero = arith.constant 0.0 : bf16 loc(unknown)
    %empty = tensor.empty() : tensor<4x5xbf16> loc(unknown)
    %init = linalg.fill ins(%zero : bf16) outs(%empty : tensor<4x5xbf16>) -> tensor<4x5xbf16> loc(unknown)
    %sum = linalg.matmul ins(%arg0, %arg1 : tensor<4x6xbf16>, tensor<6x5xbf16>) outs(%init : tensor<4x5xbf16>) -> tensor<4x5xbf16> loc(unknown)
    return %sum : tensor<4x5xbf16> loc(unknown)
  } loc(unknown)
} loc(unknown)
