#config = #iree_cpu.lowering_config<distribution = [1, 8, 32, 64, 0, 0], vector_common_parallel = [1, 2, 8, 16, 0, 0], vector_reduction = [0, 0, 0, 0, 3, 1]>
#translation = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<ConvTileAndDecomposeExpert>>
#compilation = #iree_codegen.compilation_info<lowering_config = #config, translation_info = #translation>
module @dispatch {
  func.func @main(%arg0: tensor<2x34x34x64xf32> loc(unknown), %arg1: tensor<3x3x64xf32> loc(unknown)) -> tensor<2x32x32x64xf32> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<2x32x32x64xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x32x32x64xf32>) -> tensor<2x32x32x64xf32> loc(unknown)
    %sum = linalg.depthwise_conv_2d_nhwc_hwc {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>, compilation_info = #compilation} ins(%arg0, %arg1 : tensor<2x34x34x64xf32>, tensor<3x3x64xf32>) outs(%init : tensor<2x32x32x64xf32>) -> tensor<2x32x32x64xf32> loc(unknown)
    return %sum : tensor<2x32x32x64xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
