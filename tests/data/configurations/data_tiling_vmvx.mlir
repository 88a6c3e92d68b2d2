hal.executable public @_encoding_0 {
  hal.executable.variant public @vmvx_bytecode_fb target(<"vmvx", "vmvx-bytecode-fb">) {
    hal.executable.export public @_encoding_0_encode_128x64xf32_to_128x64xf32 ordinal(0) count(%arg0: !hal.device) -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      hal.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @_encoding_0_encode_128x64xf32_to_128x64xf32() attributes {translation_info = #iree_codegen.translation_info<pipeline = #iree_codegen.vmvx_pipeline>} {
        %c0 = arith.constant 0 : index
        %2 = iree_tensor_ext.dispatch.tensor.load %0, offsets = [0, 0], sizes = [128, 64], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<128x64xf32>> -> tensor<128x64xf32>
        %3 = tensor.empty() : tensor<16x16x8x4xf32>
        %pack = linalg.pack %2 outer_dims_perm = [0, 1] inner_dims_pos = [0, 1] inner_tiles = [8, 4] into %3 {lowering_config = #iree_cpu.lowering_config<distribution = [64, 64]>} : tensor<128x64xf32> -> tensor<16x16x8x4xf32>
        iree_tensor_ext.dispatch.tensor.store %pack, %1, offsets = [0, 0, 0, 0], sizes = [16, 16, 8, 4], strides = [1, 1, 1, 1] : tensor<16x16x8x4xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<16x16x8x4xf32>>
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
  hal.executable.variant public @vmvx_bytecode_fb target(<"vmvx", "vmvx-bytecode-fb">) {
    hal.executable.export public @_encoding_1_encode_64x256xf32_to_64x256xf32 ordinal(0) count(%arg0: !hal.device) -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      hal.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @_encoding_1_encode_64x256xf32_to_64x256xf32() attributes {translation_info = #iree_codegen.translation_info<pipeline = #iree_codegen.vmvx_pipeline>} {
        %c0 = arith.constant 0 : index
        %c32768 = arith.constant 32768 : index
        %2 = iree_tensor_ext.dispatch.tensor.load %0, offsets = [0, 0], sizes = [64, 256], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x256xf32>> -> tensor<64x256xf32>
        %3 = tensor.empty() : tensor<32x16x8x4xf32>
        %pack = linalg.pack %2 outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [8, 4] into %3 {lowering_config = #iree_cpu.lowering_config<distribution = [64, 64]>} : tensor<64x256xf32> -> tensor<32x16x8x4xf32>
        iree_tensor_ext.dispatch.tensor.store %pack, %1, offsets = [0, 0, 0, 0], sizes = [32, 16, 8, 4], strides = [1, 1, 1, 1] : tensor<32x16x8x4xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<32x16x8x4xf32>>
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
  hal.executable.variant public @vmvx_bytecode_fb target(<"vmvx", "vmvx-bytecode-fb">) {
    hal.executable.export public @main_dispatch_0_matmul_128x256x64_f32 ordinal(0) count(%arg0: !hal.device) -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      hal.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_0_matmul_128x256x64_f32() attributes {translation_info = #iree_codegen.translation_info<pipeline = #iree_codegen.vmvx_pipeline>} {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %c32768 = arith.constant 32768 : index
        %3 = iree_tensor_ext.dispatch.tensor.load %0, offsets = [0, 0, 0, 0], sizes = [16, 16, 8, 4], strides = [1, 1, 1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<16x16x8x4xf32>> -> tensor<16x16x8x4xf32>
        %4 = iree_tensor_ext.dispatch.tensor.load %1, offsets = [0, 0, 0, 0], sizes = [32, 16, 8, 4], strides = [1, 1, 1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<32x16x8x4xf32>> -> tensor<32x16x8x4xf32>
        %5 = tensor.empty() : tensor<16x32x8x8xf32>
        %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<16x32x8x8xf32>) -> tensor<16x32x8x8xf32>
        %7 = linalg.mmt4d {lowering_config = #iree_cpu.lowering_config<distribution = [64, 64, 0, 0, 0, 0]>} ins(%3, %4 : tensor<16x16x8x4xf32>, tensor<32x16x8x4xf32>) outs(%6 : tensor<16x32x8x8xf32>) -> tensor<16x32x8x8xf32>
        %8 = tensor.empty() : tensor<128x256xf32>
        %unpack = linalg.unpack %7 outer_dims_perm = [0, 1] inner_dims_pos = [0, 1] inner_tiles = [8, 8] into %8 : tensor<16x32x8x8xf32> -> tensor<128x256xf32>
        iree_tensor_ext.dispatch.tensor.store %unpack, %2, offsets = [0, 0], sizes = [128, 256], strides = [1, 1] : tensor<128x256xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<128x256xf32>>
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
