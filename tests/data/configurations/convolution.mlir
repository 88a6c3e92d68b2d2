hal.executable public @f_dispatch_0 {
  hal.executable.variant public @embedded_elf_x86_64 target(<"llvm-cpu", "embedded-elf-x86_64">) {
    hal.executable.export public @f_dispatch_0_conv_32x32x64x3x3x64_f32 ordinal(0) count(%arg0: !hal.device) -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      hal.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @f_dispatch_0_conv_32x32x64x3x3x64_f32() attributes {translation_info = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<ConvTileAndDecomposeExpert>>} {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %3 = iree_codegen.load_from_buffer %1 : memref<3x3x64x64xf32, #hal.descriptor_type<storage_buffer>> -> tensor<3x3x64x64xf32>
        %4 = tensor.empty() : tensor<1x32x32x64xf32>
        %5 = linalg.fill {lowering_config = #iree_cpu.lowering_config<vector_common_parallel = [1, 1, 4, 4]>} ins(%cst : f32) outs(%4 : tensor<1x32x32x64xf32>) -> tensor<1x32x32x64xf32>
        %6 = iree_codegen.load_from_buffer %0 : memref<1x34x34x64xf32, #hal.descriptor_type<storage_buffer>> -> tensor<1x34x34x64xf32>
        %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d4, d2 + d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d3)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%6, %3 : tensor<1x34x34x64xf32>, tensor<3x3x64x64xf32>) outs(%5 : tensor<1x32x32x64xf32>) attrs =  {lowering_config = #iree_cpu.lowering_config<distribution = [0, 4, 32, 64, 0, 0, 0], vector_common_parallel = [1, 1, 4, 4, 0, 0, 0], vector_reduction = [0, 0, 0, 0, 1, 1, 8]>} {
        ^bb0(%in: f32, %in_0: f32, %out: f32):
          %8 = arith.mulf %in, %in_0 : f32
          %9 = arith.addf %out, %8 : f32
          linalg.yield %9 : f32
        } -> tensor<1x32x32x64xf32>
        iree_codegen.store_to_buffer %7, %2 : tensor<1x32x32x64xf32> into memref<1x32x32x64xf32, #hal.descriptor_type<storage_buffer>>
        return
      }
      iree_codegen.dispatch_config @f_dispatch_0_conv_32x32x64x3x3x64_f32 {
      ^bb0(%arg0: !hal.device):
        %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
        iree_codegen.yield %x, %y, %z : index, index, index
      }
    }
  }
}
