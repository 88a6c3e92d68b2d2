hal.executable public @main_dispatch_0 {
  hal.executable.variant public @embedded_elf_x86_64 target(<"llvm-cpu", "embedded-elf-x86_64">) {
    hal.executable.export public @main_dispatch_0_pack_f32 ordinal(0) {
    ^bb0(%arg0: !hal.device):
      %x, %y, %z = flow.dispatch.workgroup_count_from_slice 
      hal.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_0_pack_f32() attributes {translation_info = #iree_codegen.translation_info<CPUDataTiling>} {
        %c0 = arith.constant 0 : index
        %2 = flow.dispatch.tensor.load %0, offsets = [0, 0], sizes = [32, 64], strides = [1, 1] : !flow.dispatch.tensor<readonly:tensor<32x64xf32>> -> tensor<32x64xf32>
        %3 = tensor.empty() : tensor<2x64x16x1xf32>
        %pack = tensor.pack %2 outer_dims_perm = [0, 1] inner_dims_pos = [0, 1] inner_tiles = [16, 1] into %3 {lowering_config = #iree_codegen.lowering_config<tile_sizes = [[1, 8], [1, 16]]>} : tensor<32x64xf32> -> tensor<2x64x16x1xf32>
        flow.dispatch.tensor.store %pack, %1, offsets = [0, 0, 0, 0], sizes = [2, 64, 16, 1], strides = [1, 1, 1, 1] : tensor<2x64x16x1xf32> -> !flow.dispatch.tensor<writeonly:tensor<2x64x16x1xf32>>
        return
      }
    }
  }
}
hal.executable public @main_dispatch_1 {
  hal.executable.variant public @embedded_elf_x86_64 target(<"llvm-cpu", "embedded-elf-x86_64">) {
    hal.executable.export public @main_dispatch_1_pack_f32 ordinal(0) {
    ^bb0(%arg0: !hal.device):
      %x, %y, %z = flow.dispatch.workgroup_count_from_slice 
      hal.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_1_pack_f32() attributes {translation_info = #iree_codegen.translation_info<CPUDataTiling>} {
        %c0 = arith.constant 0 : index
        %c8192 = arith.constant 8192 : index
        %2 = flow.dispatch.tensor.load %0, offsets = [0, 0], sizes = [64, 48], strides = [1, 1] : !flow.dispatch.tensor<readonly:tensor<64x48xf32>> -> tensor<64x48xf32>
        %3 = tensor.empty() : tensor<3x64x16x1xf32>
        %pack = tensor.pack %2 outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [16, 1] into %3 {lowering_config = #iree_codegen.lowering_config<tile_sizes = [[1, 1], [1, 1]]>} : tensor<64x48xf32> -> tensor<3x64x16x1xf32>
        flow.dispatch.tensor.store %pack, %1, offsets = [0, 0, 0, 0], sizes = [3, 64, 16, 1], strides = [1, 1, 1, 1] : tensor<3x64x16x1xf32> -> !flow.dispatch.tensor<writeonly:tensor<3x64x16x1xf32>>
        return
      }
    }
  }
}
hal.executable public @main_dispatch_2 {
  hal.executable.variant public @embedded_elf_x86_64 target(<"llvm-cpu", "embedded-elf-x86_64">) {
    hal.executable.export public @main_dispatch_2_mmt4d_2x3x64x16x16x1_f32 ordinal(0) {
    ^bb0(%arg0: !hal.device):
      %x, %y, %z = flow.dispatch.workgroup_count_from_slice 
      hal.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_2_mmt4d_2x3x64x16x16x1_f32() attributes {translation_info = #iree_codegen.translation_info<Mmt4dTilingExpert>} {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %c8192 = arith.constant 8192 : index
        %c20480 = arith.constant 20480 : index
        %3 = flow.dispatch.tensor.load %0, offsets = [0, 0, 0, 0], sizes = [2, 64, 16, 1], strides = [1, 1, 1, 1] : !flow.dispatch.tensor<readonly:tensor<2x64x16x1xf32>> -> tensor<2x64x16x1xf32>
        %4 = flow.dispatch.tensor.load %1, offsets = [0, 0, 0, 0], sizes = [3, 64, 16, 1], strides = [1, 1, 1, 1] : !flow.dispatch.tensor<readonly:tensor<3x64x16x1xf32>> -> tensor<3x64x16x1xf32>
        %5 = tensor.empty() : tensor<2x3x16x16xf32>
        %6 = linalg.fill {lowering_config = #iree_codegen.lowering_config<tile_sizes = [[1, 1, 0, 0], [1, 1, 0, 16], [0, 0, 0, 0], [0, 0, 0, 0]]>} ins(%cst : f32) outs(%5 : tensor<2x3x16x16xf32>) -> tensor<2x3x16x16xf32>
        %7 = linalg.mmt4d {lowering_config = #iree_codegen.lowering_config<tile_sizes = [[1, 1, 0, 0, 0, 0], [1, 1, 0, 16, 16, 0], [0, 0, 1, 0, 0, 1]]>} ins(%3, %4 : tensor<2x64x16x1xf32>, tensor<3x64x16x1xf32>) outs(%6 : tensor<2x3x16x16xf32>) -> tensor<2x3x16x16xf32>
        flow.dispatch.tensor.store %7, %2, offsets = [0, 0, 0, 0], sizes = [2, 3, 16, 16], strides = [1, 1, 1, 1] : tensor<2x3x16x16xf32> -> !flow.dispatch.tensor<writeonly:tensor<2x3x16x16xf32>>
        return
      }
    }
  }
}
hal.executable public @main_dispatch_3 {
  hal.executable.variant public @embedded_elf_x86_64 target(<"llvm-cpu", "embedded-elf-x86_64">) {
    hal.executable.export public @main_dispatch_3_unpack_f32 ordinal(0) {
    ^bb0(%arg0: !hal.device):
      %x, %y, %z = flow.dispatch.workgroup_count_from_slice 
      hal.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_3_unpack_f32() attributes {translation_info = #iree_codegen.translation_info<CPUDataTiling>} {
        %c20480 = arith.constant 20480 : index
        %c0 = arith.constant 0 : index
        %2 = flow.dispatch.tensor.load %0, offsets = [0, 0, 0, 0], sizes = [2, 3, 16, 16], strides = [1, 1, 1, 1] : !flow.dispatch.tensor<readonly:tensor<2x3x16x16xf32>> -> tensor<2x3x16x16xf32>
        %3 = tensor.empty() : tensor<32x48xf32>
        %unpack = tensor.unpack %2 outer_dims_perm = [0, 1] inner_dims_pos = [0, 1] inner_tiles = [16, 16] into %3 {lowering_config = #iree_codegen.lowering_config<tile_sizes = [[16, 32], [16, 16]]>} : tensor<2x3x16x16xf32> -> tensor<32x48xf32>
        flow.dispatch.tensor.store %unpack, %1, offsets = [0, 0], sizes = [32, 48], strides = [1, 1] : tensor<32x48xf32> -> !flow.dispatch.tensor<writeonly:tensor<32x48xf32>>
        return
      }
    }
  }
}
