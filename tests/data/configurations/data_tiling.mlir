hal.executable public @_encoding_0 {
  hal.executable.variant public @embedded_elf_x86_64 target(<"llvm-cpu", "embedded-elf-x86_64">) {
    hal.executable.export public @_encoding_0_encode_128x64xf32_to_128x64xf32 ordinal(0) count(%arg0: !hal.device) -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      hal.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @_encoding_0_encode_128x64xf32_to_128x64xf32() attributes {translation_info = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DataTiling>>} {
        %c0 = arith.constant 0 : index
        %2 = iree_codegen.load_from_buffer %0 : memref<128x64xf32, #hal.descriptor_type<storage_buffer>> -> tensor<128x64xf32>
        %3 = tensor.empty() : tensor<16x64x8x1xf32>
        %pack = linalg.pack %2 outer_dims_perm = [0, 1] inner_dims_pos = [0, 1] inner_tiles = [8, 1] into %3 {lowering_config = #iree_cpu.lowering_config<distribution = [2, 64], vector_common_parallel = [1, 1]>} : tensor<128x64xf32> -> tensor<16x64x8x1xf32>
        iree_codegen.store_to_buffer %pack, %1 : tensor<16x64x8x1xf32> into memref<16x64x8x1xf32, #hal.descriptor_type<storage_buffer>>
        return
      }
      iree_codegen.dispatch_config @_encoding_0_encode_128x64xf32_to_128x64xf32 {
      ^bb0(%arg0: !hal.device):
        %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
        iree_codegen.yield %x, %y, %z : index, index, index
      }
    }
  }
}
hal.executable public @_encoding_1 {
  hal.executable.variant public @embedded_elf_x86_64 target(<"llvm-cpu", "embedded-elf-x86_64">) {
    hal.executable.export public @_encoding_1_encode_64x256xf32_to_64x256xf32 ordinal(0) count(%arg0: !hal.device) -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      hal.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @_encoding_1_encode_64x256xf32_to_64x256xf32() attributes {translation_info = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DataTiling>>} {
        %c0 = arith.constant 0 : index
        %c32768 = arith.constant 32768 : index
        %2 = iree_codegen.load_from_buffer %0 : memref<64x256xf32, #hal.descriptor_type<storage_buffer>> -> tensor<64x256xf32>
        %3 = tensor.empty() : tensor<32x64x8x1xf32>
        %pack = linalg.pack %2 outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [8, 1] into %3 {lowering_config = #iree_cpu.lowering_config<distribution = [4, 64], vector_common_parallel = [1, 1]>} : tensor<64x256xf32> -> tensor<32x64x8x1xf32>
        iree_codegen.store_to_buffer %pack, %1 : tensor<32x64x8x1xf32> into memref<32x64x8x1xf32, strided<[512, 8, 1, 1], offset: ?>, #hal.descriptor_type<storage_buffer>>
        return
      }
      iree_codegen.dispatch_config @_encoding_1_encode_64x256xf32_to_64x256xf32 {
      ^bb0(%arg0: !hal.device):
        %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
        iree_codegen.yield %x, %y, %z : index, index, index
      }
    }
  }
}
hal.executable public @main_dispatch_0 {
  hal.executable.variant public @embedded_elf_x86_64 target(<"llvm-cpu", "embedded-elf-x86_64">) {
    hal.executable.export public @main_dispatch_0_matmul_128x256x64_f32 ordinal(0) count(%arg0: !hal.device) -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      hal.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_0_matmul_128x256x64_f32() attributes {translation_info = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<Mmt4dTilingExpert>>} {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %c32768 = arith.constant 32768 : index
        %3 = iree_codegen.load_from_buffer %0 : memref<16x64x8x1xf32, #hal.descriptor_type<storage_buffer>> -> tensor<16x64x8x1xf32>
        %4 = iree_codegen.load_from_buffer %1 : memref<32x64x8x1xf32, strided<[512, 8, 1, 1], offset: ?>, #hal.descriptor_type<storage_buffer>> -> tensor<32x64x8x1xf32>
        %5 = tensor.empty() : tensor<16x32x8x8xf32>
        %6 = linalg.fill {lowering_config = #iree_cpu.lowering_config<vector_common_parallel = [1, 1, 8, 8]>} ins(%cst : f32) outs(%5 : tensor<16x32x8x8xf32>) -> tensor<16x32x8x8xf32>
        %7 = linalg.mmt4d {lowering_config = #iree_cpu.lowering_config<distribution = [8, 8, 0, 0, 0, 0], vector_common_parallel = [1, 1, 0, 8, 8, 0], vector_reduction = [0, 0, 1, 0, 0, 1]>} ins(%3, %4 : tensor<16x64x8x1xf32>, tensor<32x64x8x1xf32>) outs(%6 : tensor<16x32x8x8xf32>) -> tensor<16x32x8x8xf32>
        %8 = tensor.empty() : tensor<128x256xf32>
        %unpack = linalg.unpack %7 outer_dims_perm = [0, 1] inner_dims_pos = [0, 1] inner_tiles = [8, 8] into %8 {lowering_config = #iree_cpu.lowering_config<vector_common_parallel = [8, 8]>} : tensor<16x32x8x8xf32> -> tensor<128x256xf32>
        iree_codegen.store_to_buffer %unpack, %2 : tensor<128x256xf32> into memref<128x256xf32, #hal.descriptor_type<storage_buffer>>
        return
      }
      iree_codegen.dispatch_config @main_dispatch_0_matmul_128x256x64_f32 {
      ^bb0(%arg0: !hal.device):
        %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
        iree_codegen.yield %x, %y, %z : index, index, index
      }
    }
  }
}
