// An example of a file of one's own: doit file=specs/tanh.mlir reference=vmvx
func.func @main(%x: tensor<4x1024xf32>) -> tensor<4x1024xf32> {
  %y = stablehlo.tanh %x : tensor<4x1024xf32>
  return %y : tensor<4x1024xf32>
}
