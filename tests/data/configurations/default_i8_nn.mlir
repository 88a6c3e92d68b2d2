hal.executable public @main_dispatch_0 {
  hal.executable.variant public @embedded_elf_x86_64 target(<"llvm-cpu", "embedded-elf-x86_64">) {
    hal.executable.export public @main_dispatch_0_matmul_128x256x64_i8xi8xi32 ordinal(0) count(%arg0: !hal.device) -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      hal.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_0_matmul_128x256x64_i8xi8xi32() attributes {translation_info = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {enable_loop_peeling}>} {
        %c0_i32 = arith.constant 0 : i32
        %c0 = arith.constant 0 : index
        %3 = iree_codegen.load_from_buffer %0 : memref<64x128xi8, #hal.descriptor_type<storage_buffer>> -> tensor<64x128xi8>
        %4 = iree_codegen.load_from_buffer %1 : memref<256x64xi8, #hal.descriptor_type<storage_buffer>> -> tensor<256x64xi8>
        %5 = tensor.empty() : tensor<128x256xi32>
        %6 = linalg.fill {lowering_config = #iree_cpu.lowering_config<cache_parallel = [32, 64], vector_common_parallel = [8, 8]>} ins(%c0_i32 : i32) outs(%5 : tensor<128x256xi32>) -> tensor<128x256xi32>
        %7 = linalg.matmul indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>] {lowering_config = #iree_cpu.lowering_config<cache_parallel = [32, 64, 0], distribution = [32, 64, 0], vector_common_parallel = [8, 8, 0], vector_reduction = [0, 0, 8]>} ins(%3, %4 : tensor<64x128xi8>, tensor<256x64xi8>) outs(%6 : tensor<128x256xi32>) -> tensor<128x256xi32>
        iree_codegen.store_to_buffer %7, %2 : tensor<128x256xi32> into memref<128x256xi32, #hal.descriptor_type<storage_buffer>>
        return
      }
      iree_codegen.dispatch_config @main_dispatch_0_matmul_128x256x64_i8xi8xi32 {
      ^bb0(%arg0: !hal.device):
        %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
        iree_codegen.yield %x, %y, %z : index, index, index
      }
    }
  }
}
