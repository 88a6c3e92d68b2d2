hal.executable public @main_dispatch_0 {
  hal.executable.variant public @embedded_elf_x86_64 target(<"llvm-cpu", "embedded-elf-x86_64">) {
    hal.executable.export public @main_dispatch_0_matmul_1x1x1_f32 ordinal(0) count(%arg0: !hal.device) -> (index, index, index) {
      %c1 = arith.constant 1 : index
      hal.return %c1, %c1, %c1 : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_0_matmul_1x1x1_f32() attributes {translation_info = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>} {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %3 = iree_codegen.load_from_buffer %0 : memref<1x1xf32, #hal.descriptor_type<storage_buffer>> -> tensor<1x1xf32>
        %4 = iree_codegen.load_from_buffer %1 : memref<1x1xf32, #hal.descriptor_type<storage_buffer>> -> tensor<1x1xf32>
        %5 = tensor.empty() : tensor<1x1xf32>
        %6 = linalg.fill {lowering_config = #iree_cpu.lowering_config<vector_common_parallel = [1, 8]>} ins(%cst : f32) outs(%5 : tensor<1x1xf32>) -> tensor<1x1xf32>
        %7 = linalg.matmul {lowering_config = #iree_cpu.lowering_config<distribution = [0, 0, 0], vector_common_parallel = [1, 8, 0], vector_reduction = [0, 0, 8]>} ins(%3, %4 : tensor<1x1xf32>, tensor<1x1xf32>) outs(%6 : tensor<1x1xf32>) -> tensor<1x1xf32>
        iree_codegen.store_to_buffer %7, %2 : tensor<1x1xf32> into memref<1x1xf32, #hal.descriptor_type<storage_buffer>>
        return
      }
      iree_codegen.dispatch_config @main_dispatch_0_matmul_1x1x1_f32 {
      ^bb0(%arg0: !hal.device):
        %c1 = arith.constant 1 : index
        iree_codegen.yield %c1, %c1, %c1 : index, index, index
      }
    }
  }
}
