#config = #iree_gpu.lowering_config<{mma_kind = #iree_gpu.mma_layout<NV_MMA_SYNC_F32_16x8x16_F16>, promote_operands = [0, 1], reduction = [0, 0, 2], subgroup = [2, 4, 0], workgroup = [64, 64, 0]}>
#translation = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<TileAndFuse> workgroup_size = [128, 1, 1] subgroup_size = 32>
#compilation = #iree_codegen.compilation_info<lowering_config = #config, translation_info = #translation>
module @dispatch {
  func.func @main(%arg0: tensor<128x128xf16> loc(unknown), %arg1: tensor<128x128xf16> loc(unknown)) -> tensor<128x128xf32> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<128x128xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<128x128xf32>) -> tensor<128x128xf32> loc(unknown)
    %sum = linalg.matmul {compilation_info = #compilation} ins(%arg0, %arg1 : tensor<128x128xf16>, tensor<128x128xf16>) outs(%init : tensor<128x128xf32>) -> tensor<128x128xf32> loc(unknown)
    return %sum : tensor<128x128xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
