#config = #iree_cpu.lowering_config<cache_parallel = [1, 64, 32, 0], cache_reduction = [0, 0, 0, 16], distribution = [1, 64, 64, 0], vector_common_parallel = [1, 8, 32, 0], vector_reduction = [0, 0, 0, 1]>
#translation = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>>
#compilation = #iree_codegen.compilation_info<lowering_config = #config, translation_info = #translation>
module @dispatch {
  func.func @main(%arg0: tensor<4x64x64xf32> loc(unknown), %arg1: tensor<4x64x64xf32> loc(unknown)) -> tensor<4x64x64xf32> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4x64x64xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x64x64xf32>) -> tensor<4x64x64xf32> loc(unknown)
    %sum = linalg.batch_matmul {compilation_info = #compilation} ins(%arg0, %arg1 : tensor<4x64x64xf32>, tensor<4x64x64xf32>) outs(%init : tensor<4x64x64xf32>) -> tensor<4x64x64xf32> loc(unknown)
    return %sum : tensor<4x64x64xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
