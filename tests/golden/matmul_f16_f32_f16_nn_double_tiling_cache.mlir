#config = #iree_cpu.lowering_config<cache_parallel = [64, 64, 0], distribution = [128, 128, 0], vector_common_parallel = [4, 16, 0], vector_reduction = [0, 0, 4]>
#translation = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>>
#compilation = #iree_codegen.compilation_info<lowering_config = #config, translation_info = #translation>
module @dispatch {
  func.func @main(%arg0: tensor<6x4xf16> loc(unknown), %arg1: tensor<5x6xf16> loc(unknown)) -> tensor<4x5xf16> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4x5xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x5xf32>) -> tensor<4x5xf32> loc(unknown)
    %sum = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>] {compilation_info = #compilation} ins(%arg0, %arg1 : tensor<6x4xf16>, tensor<5x6xf16>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32> loc(unknown)
    %slot = tensor.empty() : tensor<4x5xf16> loc(unknown)
    %out = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%sum : tensor<4x5xf32>) outs(%slot : tensor<4x5xf16>) {
    ^bb0(%wide: f32 loc(unknown), %unused: f16 loc(unknown)):
      %narrow = arith.truncf %wide : f32 to f16 loc(unknown)
      linalg.yield %narrow : f16 loc(unknown)
    } -> tensor<4x5xf16> loc(unknown)
    return %out : tensor<4x5xf16> loc(unknown)
  } loc(unknown)
} loc(unknown)
