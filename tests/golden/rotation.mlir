module @rotation {
  util.func private @"dispatch.main"(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> (!hal.buffer_view)
  util.global private mutable @next = 0 : index
  util.global private mutable @ready = 0 : i32
  util.global private mutable @copies0 : !hal.buffer
  util.global private mutable @copies1 : !hal.buffer
  util.func private @repeated0(%view: !hal.buffer_view) -> !hal.buffer {
    %begin = arith.constant 0 : index
    %size = arith.constant 96 : index
    %type = hal.element_type<i8> : i32
    %encoding = hal.encoding_type<dense_row_major> : i32
    %buffer = hal.buffer_view.buffer<%view : !hal.buffer_view> : !hal.buffer
    %raw = hal.buffer_view.create buffer(%buffer : !hal.buffer)[%begin, %size] shape([%size]) type(%type) encoding(%encoding) : !hal.buffer_view
    %bytes = hal.tensor.import %raw : !hal.buffer_view -> tensor<96xi8>
    %padding = arith.constant 0 : i8
    %x = tensor.pad %bytes low[0] high[32] {
    ^bb0(%i: index):
      tensor.yield %padding : i8
    } : tensor<96xi8> to tensor<128xi8>
    %empty = tensor.empty() : tensor<3x128xi8>
    %all = linalg.broadcast ins(%x : tensor<128xi8>) outs(%empty : tensor<3x128xi8>) dimensions = [0]
    %copies = hal.tensor.export %all : tensor<3x128xi8> -> !hal.buffer
    util.return %copies : !hal.buffer
  }
  util.func private @repeated1(%view: !hal.buffer_view) -> !hal.buffer {
    %begin = arith.constant 0 : index
    %size = arith.constant 120 : index
    %type = hal.element_type<i8> : i32
    %encoding = hal.encoding_type<dense_row_major> : i32
    %buffer = hal.buffer_view.buffer<%view : !hal.buffer_view> : !hal.buffer
    %raw = hal.buffer_view.create buffer(%buffer : !hal.buffer)[%begin, %size] shape([%size]) type(%type) encoding(%encoding) : !hal.buffer_view
    %bytes = hal.tensor.import %raw : !hal.buffer_view -> tensor<120xi8>
    %padding = arith.constant 0 : i8
    %x = tensor.pad %bytes low[0] high[8] {
    ^bb0(%i: index):
      tensor.yield %padding : i8
    } : tensor<120xi8> to tensor<128xi8>
    %empty = tensor.empty() : tensor<3x128xi8>
    %all = linalg.broadcast ins(%x : tensor<128xi8>) outs(%empty : tensor<3x128xi8>) dimensions = [0]
    %copies = hal.tensor.export %all : tensor<3x128xi8> -> !hal.buffer
    util.return %copies : !hal.buffer
  }
  util.func public @"main"(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> (!hal.buffer_view) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %step = arith.constant 1 : index
    %count = arith.constant 3 : index
    %encoding = hal.encoding_type<dense_row_major> : i32
    %ready = util.global.load @ready : i32
    %first = arith.cmpi eq, %ready, %zero : i32
    %copies:2 = scf.if %first -> (!hal.buffer, !hal.buffer) {
      util.global.store %one, @ready : i32
      %made0 = util.call @repeated0(%arg0) : (!hal.buffer_view) -> !hal.buffer
      util.global.store %made0, @copies0 : !hal.buffer
      %made1 = util.call @repeated1(%arg1) : (!hal.buffer_view) -> !hal.buffer
      util.global.store %made1, @copies1 : !hal.buffer
      scf.yield %made0, %made1 : !hal.buffer, !hal.buffer
    } else {
      %kept0 = util.global.load @copies0 : !hal.buffer
      %kept1 = util.global.load @copies1 : !hal.buffer
      scf.yield %kept0, %kept1 : !hal.buffer, !hal.buffer
    }
    %this = util.global.load @next : index
    %after = arith.addi %this, %step : index
    %next = arith.remui %after, %count : index
    util.global.store %next, @next : index
    %size0_0 = arith.constant 4 : index
    %size0_1 = arith.constant 6 : index
    %stride0 = arith.constant 128 : index
    %bytes0 = arith.constant 96 : index
    %type0 = hal.element_type<f32> : i32
    %offset0 = arith.muli %this, %stride0 : index
    %cold0 = hal.buffer_view.create buffer(%copies#0 : !hal.buffer)[%offset0, %bytes0] shape([%size0_0, %size0_1]) type(%type0) encoding(%encoding) : !hal.buffer_view
    %size1_0 = arith.constant 6 : index
    %size1_1 = arith.constant 5 : index
    %stride1 = arith.constant 128 : index
    %bytes1 = arith.constant 120 : index
    %type1 = hal.element_type<f32> : i32
    %offset1 = arith.muli %this, %stride1 : index
    %cold1 = hal.buffer_view.create buffer(%copies#1 : !hal.buffer)[%offset1, %bytes1] shape([%size1_0, %size1_1]) type(%type1) encoding(%encoding) : !hal.buffer_view
    %result0 = util.call @"dispatch.main"(%cold0, %cold1) : (!hal.buffer_view, !hal.buffer_view) -> (!hal.buffer_view)
    util.return %result0 : !hal.buffer_view
  }
}
