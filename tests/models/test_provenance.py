"""The user's operations that a site computes are found by their locations or by data flow."""

import pytest

from dispatchflow.models import kinds, provenance, work
from dispatchflow.models.site import Origin
from dispatchflow.models.tagged import Computation, Dispatch, Dispatches, Launch, Launches, Node, Scalar, Source

ADD = (Scalar("arith.addf"),)


def node(kind, *uses, given=(), parent=1, results=1, symbol=None, name=None):
    return Node(kind, parent, symbol, True, results, uses, tuple((1, i) for i in given), name)


def module(*nodes):
    """Return a module's nodes: number 0 is the module, 1 is its function `main`, and `nodes` begin at 2."""
    return (
        Node("builtin.module", None, None, False, 0, (), ()),
        Node("func.func", 0, "main", False, 0, (), ()),
        *nodes,
    )


def computing(*origins):
    return Computation("linalg.generic", origins, ("tensor<4xf32>",), ("(d0) -> (d0)",), True, ADD)


def moving(*origins):
    return Computation("linalg.transpose", origins, ("tensor<4x4xf32>",) * 2)


def stored(*origins):
    """Return the body of a dispatch that only loads and stores, such as a copy into a padded tensor."""
    around = "iree_tensor_ext.dispatch.tensor.load", "iree_tensor_ext.dispatch.tensor.store", "flow.return"
    return tuple(Computation(kind, origins, tensor="load" in kind) for kind in around)


def launch(number, at_load=False, function="main$async"):
    return Launch((number,), (), function, at_load, "e", f"dispatch_{number}", 0, number)


def program(source, flow, *bodies, launches=None):
    """Build a program. `flow` is `source` after the phase `flow`. Each dispatch has one of `bodies`."""
    places = [number for number, each in enumerate(flow) if each.kind == "flow.dispatch.workgroups"]
    formed = [Dispatch(place, body, (), ()) for place, body in zip(places, bodies, strict=True)]
    host = launches or [launch(number) for number in range(len(formed))]
    return provenance.program(Source(source), Dispatches(flow, tuple(formed)), Launches(tuple(host)))


def dispatch(*uses, given=()):
    return node("flow.dispatch.workgroups", *uses, given=given)


NETWORK = module(
    node("onnx.MaxPool", given=[0], name="pool"),  # 2
    node("onnx.Reshape", 2),  # 3
    node("onnx.Transpose", 3),  # 4
    node("onnx.Gemm", 4),  # 5
    node("onnx.Relu", 5),  # 6
    node("func.return", 6, results=0),
)
FLOW = module(
    dispatch(given=[0]), dispatch(2), node("flow.tensor.reshape", 3), dispatch(4), node("util.return", 5, results=0)
)


def test_moved_transpose_is_not_the_neighbour_whose_location_it_has():
    found = program(NETWORK, FLOW, (computing(2),), (moving(2),), (computing(5), computing(6)))

    assert [site.origins for site in found.sites] == [
        (Origin(2, "location"),),
        (Origin(3, "data flow"), Origin(4, "data flow")),
        (Origin(5, "location"), Origin(6, "location")),
    ]
    assert found.unplaced == found.shared == ()
    assert [site.function for site in found.sites] == ["main"] * 3
    assert [site.number for site in found.sites_of(4)] == [2]


def test_location_of_data_movement_is_believed_if_the_source_moves_data_there():
    found = program(NETWORK, FLOW, (computing(2),), (moving(4),), (computing(5, 6),))

    assert found.sites[1].origins == (Origin(4, "location"),)


def test_a_dispatch_without_locations_has_the_operations_between_its_argument_and_result():
    source = module(node("linalg.transpose", given=[0]), node("func.return", 2, results=0))
    flow = module(dispatch(given=[0]), node("util.return", 2, results=0))

    (site,) = program(source, flow, (moving(),)).sites

    assert site.origins == (Origin(2, "data flow"),)


def test_candidates_are_of_the_argument_that_the_dispatch_reads():
    source = module(
        node("linalg.transpose", given=[0]),
        node("linalg.transpose", given=[1]),
        node("linalg.matmul", 2, 3),
        node("func.return", 4, results=0),
    )
    flow = module(dispatch(given=[1]), dispatch(2, given=[0]), node("util.return", 3, results=0))

    first, second = program(source, flow, (moving(),), (computing(4),)).sites

    assert first.origins == (Origin(3, "data flow"),)
    assert second.origins == (Origin(4, "location"),)


@pytest.mark.parametrize("copying", ["a pad", "a load and a store"])
@pytest.mark.parametrize(("location", "operations"), [(3, [3]), (2, [])], ids=["its reader's", "a stranger's"])
def test_copy_with_a_padding_belongs_to_the_convolution_that_reads_it(location, operations, copying):
    source = module(
        node("linalg.exp", given=[1]),
        node("onnx.Conv", given=[0]),
        node("func.return", 3, results=0),
    )
    flow = module(dispatch(given=[1]), dispatch(given=[0]), dispatch(3), node("util.return", 4, results=0))

    copies = {"a pad": (moving(location),), "a load and a store": stored(location)}
    _, copy, _ = program(source, flow, (computing(2),), copies[copying], (computing(3),)).sites

    assert copy.origins == tuple(Origin(each, "data flow") for each in operations)


def test_operations_in_no_site_and_in_several_sites_are_reported():
    source = module(
        node("arith.constant"),  # 2
        node("linalg.exp", 2),  # 3: of constants
        node("linalg.matmul", 3, given=[0]),  # 4: two dispatches
        node("onnx.Dropout", 4),  # 5: folded
        node("func.return", 5, results=0),
    )
    flow = module(dispatch(given=[0]), dispatch(2), node("util.return", 3, results=0))

    found = program(source, flow, (computing(4),), (computing(4),))

    assert [operation.number for operation in found.shared] == [4]
    assert [(operation.number, operation.constant) for operation in found.unplaced] == [(3, True), (5, False)]
    assert 2 not in [operation.number for operation in found.operations]


def test_scalar_operations_count_for_the_operation_around_them():
    source = module(
        node("linalg.generic", given=[0]),
        node("arith.addf", parent=2),
        node("linalg.yield", 3, parent=2, results=0),
        node("func.return", 2, results=0),
    )
    flow = module(dispatch(given=[0]), node("util.return", 2, results=0))
    body = Computation("linalg.generic", (), ("tensor<4xf32>",), ("(d0) -> (d0)",), True, (Scalar("arith.addf", (3,)),))

    found = program(source, flow, (body,))

    assert [operation.number for operation in found.operations] == [2]
    assert found.sites[0].origins == (Origin(2, "location"),)


def test_operations_of_initializers_are_listed_and_a_launch_of_two_dispatches_is_refused():
    launches = [launch(0, at_load=True, function="w"), launch(1), launch(2)]
    bodies = (computing(2),), (moving(2),), (computing(5, 6),)

    found = program(NETWORK, FLOW, *bodies, launches=launches)

    assert [operation.kind for operation in found.at_load] == ["onnx.MaxPool"]
    with pytest.raises(ValueError, match="a launch of x has the tags of 2 dispatches"):
        program(NETWORK, FLOW, *bodies, launches=[Launch((0, 1), (), "main", False, "e", "x", 0, 0)])


@pytest.mark.parametrize(
    ("location", "origins"), [((), ()), ((1, 3, 2), (2, 3))], ids=["without a location", "with that of two operations"]
)
def test_launch_that_the_compiler_added_has_the_operations_of_its_location(location, origins):
    found = program(NETWORK, module(), launches=[Launch((), location, "main", False, "e", "fill", 0, 0)])

    (site,) = found.sites
    assert (site.export, site.flops, site.dispatch) == ("fill", None, None)
    assert site.origins == tuple(Origin(each, "launch") for each in origins)
    assert found.shared == ()


MATMUL = Computation(
    "linalg.matmul",
    types=("tensor<8x16xf32>", "tensor<16x4xf32>", "tensor<8x4xf32>"),
    maps=("(d0, d1, d2) -> (d0, d2)", "(d0, d1, d2) -> (d2, d1)", "(d0, d1, d2) -> (d0, d1)"),
    scalars=(Scalar("arith.mulf"), Scalar("arith.addf")),
)


@pytest.mark.parametrize(
    ("operations", "flops"),
    [
        ([MATMUL], 2 * 8 * 16 * 4),
        ([MATMUL, moving()], 1024),
        ([Computation("linalg.fill", types=("f32", "tensor<4xf32>"))], 0),
        ([Computation("linalg.softmax", types=("tensor<4xf32>",) * 2)], None),
        ([Computation("iree_linalg_ext.attention", types=("tensor<4xf32>",))], None),
        ([Computation("tensor.pad", types=("tensor<?xf32>",))], 0),
        ([Computation("linalg.generic", (), ("tensor<?xf32>",), ("(d0) -> (d0)",), True, ADD)], None),
        # A convolution's input is indexed by sums of dimensions; the filter and the result have each dimension alone.
        (
            [
                Computation(
                    "linalg.conv_1d",
                    types=("tensor<10xf32>", "tensor<3xf32>", "tensor<8xf32>"),
                    maps=("(d0, d1) -> (d0 + d1)", "(d0, d1) -> (d1)", "(d0, d1) -> (d0)"),
                    scalars=MATMUL.scalars,
                )
            ],
            48,
        ),
        ([Computation("linalg.generic", (), ("tensor<f32>",), ("() -> ()",), True, ADD)], 1),
    ],
)
def test_flops_are_those_of_the_iteration_domains(operations, flops):
    assert work.flops(Dispatch(0, tuple(operations), (), ())) == flops


@pytest.mark.parametrize(
    ("operations", "elements"),
    [
        ([MATMUL, moving()], ("f32",)),
        ([Computation("linalg.fill", types=("f32", "tensor<4xf32>"))], ()),
        ([Computation("linalg.generic", (), ("tensor<4xbf16>", "tensor<f64>"), (), True, ADD), MATMUL],
         ("bf16", "f32", "f64")),
        ([Computation("linalg.generic", (), ("tensor<4xcomplex<f32>>", "index"), (), True, ADD)],
         ("complex<f32>", "index")),
    ],
)  # fmt: skip
def test_element_types_are_those_of_the_arithmetic(operations, elements):
    assert work.elements(Dispatch(0, tuple(operations), (), ())) == elements


@pytest.mark.parametrize(
    ("type_", "size"),
    [
        ("tensor<4x8xf32>", 128),
        ("tensor<bf16>", 2),
        ("tensor<3xi4>", 2),
        ("tensor<8xi1>", 8),
        ("tensor<2xcomplex<f32>>", 16),
        ("tensor<4xindex>", 32),
        ("tensor<4xf8E4M3FNUZ>", 4),
        ("tensor<4x8xf32, #iree_encoding.layout<[#a<x>]>>", 128),
        ("tensor<?x8xf32>", None),
        ("tensor<4x!quant.any>", None),
        ("index", 0),
    ],
)
def test_traffic_is_of_operands_and_results(type_, size):
    assert work.traffic_bytes(Dispatch(0, (), (type_,), ())) == size
    assert work.traffic_bytes(Dispatch(0, (), (), (type_,))) == size


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("linalg.matmul", True),
        ("linalg.transpose", True),
        ("onnx.Conv", True),
        ("torch.aten.add.Tensor", True),
        ("stablehlo.transpose", True),
        ("tosa.const", False),
        ("tensor.expand_shape", False),
        ("torch.aten.view", False),
        ("onnx.Reshape", False),
        ("onnx.Constant", False),
        ("stablehlo.constant", False),
        ("arith.constant", False),
        ("tensor.empty", False),
        ("linalg.fill", False),
        ("scf.while", False),
        ("stablehlo.return", False),
        ("util.global.load", False),
        ("util.func", False),
        ("stablehlo.reshape", False),
    ],
)
def test_operations_are_classified_by_whether_they_compute(kind, expected):
    assert kinds.computes(node(kind)) is expected


def test_a_call_launches_the_sites_of_its_function_and_of_those_that_it_calls():
    host = [launch(0, function="inner"), launch(1), launch(2, function="other$async"), launch(3, True, "w")]
    source = module(node("onnx.Relu", given=[0]))
    flow = module(*(dispatch(given=[0]) for _ in host))
    formed = tuple(Dispatch(2 + each, (computing(2),), (), ()) for each in range(4))
    calls = {"main": ("main$async",), "main$async": ("inner",), "other": ("other$async",)}
    found = provenance.program(Source(source), Dispatches(flow, formed), Launches(tuple(host), calls))
    assert found.calls == {"main": ("inner",)}
    assert [site.number for site in found.called_by("main")] == [1, 2, 4]
    assert [site.number for site in found.called_by("other")] == [3, 4]


def test_a_tag_that_two_launches_have_is_refused():
    source = module(node("onnx.Relu", given=[0]), node("func.return", 2, results=0))
    with pytest.raises(ValueError, match="2 launches of dispatch_0 have the tag of one dispatch"):
        program(source, module(dispatch(given=[0])), (computing(2),), launches=[launch(0), launch(0)])
