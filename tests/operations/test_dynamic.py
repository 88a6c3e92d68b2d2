"""One module with dynamic dims serves all sizes of these dims. Each size is verified and measured."""

from itertools import product

import pytest
from support.project import sweep

from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.tunings import TUNINGS

pytest_plugins = ["support.project"]

MATMUL = OPERATIONS["matmul"]


def text(operation: Operation) -> str:
    return Dispatch(operation, TUNINGS["default"].expand({})[0]).module()


def test_module_is_the_same_for_all_sizes_of_its_dynamic_dims():
    assert text(MATMUL.make((8, 16, 32), dynamic="mnk")) == text(MATMUL.make((5, 6, 7), dynamic="mnk"))
    assert text(MATMUL.make((8, 16, 32), dynamic="m")) == text(MATMUL.make((5, 16, 32), dynamic="m"))
    assert text(MATMUL.make((8, 16, 32), dynamic="m")) != text(MATMUL.make((8, 17, 32), dynamic="m"))


@pytest.mark.parametrize("name", ["matmul", "batch_matmul"])
def test_only_the_types_in_the_module_leave_sizes_out(name):
    cls = OPERATIONS[name]
    for words, epilogue in product(cls.options["dynamic"].values[1:], ("none", "bias", "residual")):
        sizes, options = (3, 4, 5, 6)[-len(cls.dims) :], {"accumulate": "yes", "epilogue": epilogue}
        static, dynamic = (cls.make(sizes, layout="nn", dynamic=word, **options) for word in ("no", words))
        assert [o.type.spelling for o in dynamic.operands()] == [o.type.spelling for o in static.operands()]
        assert (dynamic.flops(), dynamic.traffic_bytes()) == (static.flops(), static.traffic_bytes())
        known = [size for size, dim in zip(sizes, cls.dims, strict=True) if dim not in words]
        for operand in (*dynamic.operands(), type(dynamic.operands()[0])(dynamic.result())):
            shape = operand.type.mlir.removeprefix("tensor<").split("x")[:-1]
            assert len(shape) == len(operand.type.shape)
            assert {int(size) for size in shape if size != "?"} <= set(known)


@pytest.mark.iree
def test_sizes_of_one_module_are_compiled_once_and_verified_and_measured_each(copied):
    copied.add(sweep(m=[8, 24], dynamic="m"))
    outcome = copied.doit("protocol=fast", "profile:*dynamic*")
    assert outcome.code == 0, str(outcome)
    assert "1 emitted, 1 compiled, 2 verified, 2 measured" in outcome.out
    rows = {row["m"]: row for row in copied.rows() if row["dynamic"] == "m"}
    assert {row["case"] for row in rows.values()} == {
        f"matmul_{m}x16x16_f32t_f32t_f32t_dynamic_m_default@llvm-cpu-1t" for m in (8, 24)
    }
    assert len({row["compile_key"] for row in rows.values()}) == len({row["code_digest"] for row in rows.values()}) == 1
    assert {m: (row["dynamic"], row["flops"], row["verification"]) for m, row in rows.items()} == {
        m: ("m", 2 * m * 16 * 16, "within bound") for m in (8, 24)
    }
    assert all(row["median_ns"] > 0 for row in rows.values())
