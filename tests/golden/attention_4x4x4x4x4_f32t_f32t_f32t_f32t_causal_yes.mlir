module @dispatch {
  func.func @main(%arg0: tensor<4x4x4xf32> loc(unknown), %arg1: tensor<4x4x4xf32> loc(unknown), %arg2: tensor<4x4x4xf32> loc(unknown)) -> tensor<4x4x4xf32> {
    %mask_empty = tensor.empty() : tensor<4x4xi1> loc(unknown)
    %mask = linalg.generic {indexing_maps = [affine_map<(m, l) -> (m, l)>], iterator_types = ["parallel", "parallel"]} outs(%mask_empty : tensor<4x4xi1>) {
    ^bb0(%unused: i1 loc(unknown)):
      %i = linalg.index 0 : index loc(unknown)
      %j = linalg.index 1 : index loc(unknown)
      %before = arith.constant 0 : index loc(unknown)
      %last = arith.addi %i, %before : index loc(unknown)
      %seen = arith.cmpi sle, %j, %last : index loc(unknown)
      linalg.yield %seen : i1 loc(unknown)
    } -> tensor<4x4xi1> loc(unknown)
    %scale = arith.constant 0.5 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4x4x4xf32> loc(unknown)
    %all = "iree_linalg_ext.attention"(%arg0, %arg1, %arg2, %scale, %mask, %empty) <{indexing_maps = [affine_map<(b, m, n, k, l) -> (b, m, k)>, affine_map<(b, m, n, k, l) -> (b, l, k)>, affine_map<(b, m, n, k, l) -> (b, l, n)>, affine_map<(b, m, n, k, l) -> ()>, affine_map<(b, m, n, k, l) -> (m, l)>, affine_map<(b, m, n, k, l) -> (b, m, n)>]}> ({
    ^bb0(%score: f32 loc(unknown)):
      "iree_linalg_ext.yield"(%score) : (f32) -> () loc(unknown)
    }) : (tensor<4x4x4xf32>, tensor<4x4x4xf32>, tensor<4x4x4xf32>, f32, tensor<4x4xi1>, tensor<4x4x4xf32>) -> tensor<4x4x4xf32> loc(unknown)
    return %all : tensor<4x4x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
