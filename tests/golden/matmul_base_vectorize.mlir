#config = #iree_codegen.lowering_config<tile_sizes = [[32, 64], [4, 8], [0, 0, 4]]>
#translation = #iree_codegen.translation_info<pipeline = #iree_gpu.spirv_pipeline<BaseVectorize> workgroup_size = [8, 8, 1]>
#compilation = #iree_codegen.compilation_info<lowering_config = #config, translation_info = #translation>
module @dispatch {
  func.func @main(%arg0: tensor<64x64xf32> loc(unknown), %arg1: tensor<64x64xf32> loc(unknown)) -> tensor<64x64xf32> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<64x64xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32> loc(unknown)
    %sum = linalg.matmul {compilation_info = #compilation} ins(%arg0, %arg1 : tensor<64x64xf32>, tensor<64x64xf32>) outs(%init : tensor<64x64xf32>) -> tensor<64x64xf32> loc(unknown)
    return %sum : tensor<64x64xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
