module @dispatch {
  func.func @main(%arg0: tensor<4x6xi8> loc(unknown), %arg1: tensor<6x5xi8> loc(unknown)) -> tensor<4x5xi32> {
    %zero = arith.constant 0 : i32 loc(unknown)
    %empty = tensor.empty() : tensor<4x5xi32> loc(unknown)
    %init = linalg.fill ins(%zero : i32) outs(%empty : tensor<4x5xi32>) -> tensor<4x5xi32> loc(unknown)
    %sum = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<4x6xi8>, tensor<6x5xi8>) outs(%init : tensor<4x5xi32>) {
    ^bb0(%left: i8 loc(unknown), %right: i8 loc(unknown), %so_far: i32 loc(unknown)):
      %wide_left = arith.extui %left : i8 to i32 loc(unknown)
      %wide_right = arith.extsi %right : i8 to i32 loc(unknown)
      %term = arith.muli %wide_left, %wide_right : i32 loc(unknown)
      %next = arith.addi %so_far, %term : i32 loc(unknown)
      linalg.yield %next : i32 loc(unknown)
    } -> tensor<4x5xi32> loc(unknown)
    return %sum : tensor<4x5xi32> loc(unknown)
  } loc(unknown)
} loc(unknown)
