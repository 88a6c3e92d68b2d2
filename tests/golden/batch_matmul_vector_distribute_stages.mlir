#config = #iree_gpu.lowering_config<{mma_kind = #iree_gpu.mma_layout<MFMA_F32_16x16x16_BF16>, promote_operands = [0], reduction = [0, 0, 0, 32], subgroup_basis = [[1, 2, 2, 1], [0, 1, 2, 3]], workgroup = [1, 64, 64, 0]}>
#translation = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> workgroup_size = [256, 1, 1] subgroup_size = 64, {gpu_pipeline_options = #iree_gpu.pipeline_options<prefetch_num_stages = 3>}>
#compilation = #iree_codegen.compilation_info<lowering_config = #config, translation_info = #translation>
module @dispatch {
  func.func @main(%arg0: tensor<4x128x128xbf16> loc(unknown), %arg1: tensor<4x128x128xbf16> loc(unknown)) -> tensor<4x128x128xf32> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<4x128x128xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x128x128xf32>) -> tensor<4x128x128xf32> loc(unknown)
    %sum = linalg.batch_matmul {compilation_info = #compilation} ins(%arg0, %arg1 : tensor<4x128x128xbf16>, tensor<4x128x128xbf16>) outs(%init : tensor<4x128x128xf32>) -> tensor<4x128x128xf32> loc(unknown)
    return %sum : tensor<4x128x128xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
