#config = #iree_cpu.lowering_config<distribution = [1, 8, 32, 64, 0, 0, 0], vector_common_parallel = [1, 2, 8, 16, 0, 0, 0], vector_reduction = [0, 0, 0, 0, 3, 1, 4]>
#translation = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<ConvTileAndDecomposeExpert>>
#compilation = #iree_codegen.compilation_info<lowering_config = #config, translation_info = #translation>
module @dispatch {
  func.func @main(%arg0: tensor<1x34x34x64xf32> loc(unknown), %arg1: tensor<3x3x64x32xf32> loc(unknown)) -> tensor<1x32x32x32xf32> {
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %empty = tensor.empty() : tensor<1x32x32x32xf32> loc(unknown)
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x32x32x32xf32>) -> tensor<1x32x32x32xf32> loc(unknown)
    %dispatched = flow.dispatch.region -> (tensor<1x32x32x32xf32>) {
      %sum = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>, compilation_info = #compilation} ins(%arg0, %arg1 : tensor<1x34x34x64xf32>, tensor<3x3x64x32xf32>) outs(%init : tensor<1x32x32x32xf32>) -> tensor<1x32x32x32xf32> loc(unknown)
      flow.return %sum : tensor<1x32x32x32xf32> loc(unknown)
    } loc(unknown)
    return %dispatched : tensor<1x32x32x32xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
