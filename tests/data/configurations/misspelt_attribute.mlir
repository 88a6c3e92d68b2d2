hal.executable public @mm_dispatch_0 {
  hal.executable.variant public @embedded_elf_x86_64 target(<"llvm-cpu", "embedded-elf-x86_64">) {
    hal.executable.export public @mm_dispatch_0_matmul_512x512x512_f32 ordinal(0) count(%arg0: !hal.device) -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      hal.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @mm_dispatch_0_matmul_512x512x512_f32() attributes {translation_info = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>} {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %3 = iree_codegen.load_from_buffer %0 : memref<512x512xf32, #hal.descriptor_type<storage_buffer>> -> tensor<512x512xf32>
        %4 = iree_codegen.load_from_buffer %1 : memref<512x512xf32, #hal.descriptor_type<storage_buffer>> -> tensor<512x512xf32>
        %5 = tensor.empty() : tensor<512x512xf32>
        %6 = linalg.fill {lowering_config = #iree_cpu.lowering_config<cache_parallel = [64, 64], vector_common_parallel = [8, 8]>} ins(%cst : f32) outs(%5 : tensor<512x512xf32>) -> tensor<512x512xf32>
        %7 = linalg.matmul {compilation_inf0 = #iree_codegen.compilation_info<lowering_config = #iree_cpu.lowering_config<distribution = [64, 64, 0], vector_common_parallel = [8, 32, 0], vector_reduction = [0, 0, 1]>, translation_info = <pipeline = #iree_cpu.pipeline<DoubleTilingExpert>>>, lowering_config = #iree_cpu.lowering_config<cache_parallel = [64, 64, 0], distribution = [64, 64, 0], vector_common_parallel = [8, 8, 0], vector_reduction = [0, 0, 8]>} ins(%3, %4 : tensor<512x512xf32>, tensor<512x512xf32>) outs(%6 : tensor<512x512xf32>) -> tensor<512x512xf32>
        iree_codegen.store_to_buffer %7, %2 : tensor<512x512xf32> into memref<512x512xf32, #hal.descriptor_type<storage_buffer>>
        return
      }
      iree_codegen.dispatch_config @mm_dispatch_0_matmul_512x512x512_f32 {
      ^bb0(%arg0: !hal.device):
        %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
        iree_codegen.yield %x, %y, %z : index, index, index
      }
    }
  }
}
