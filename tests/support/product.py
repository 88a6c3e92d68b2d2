"""Make cases of every operation, type, layout, option, tuning and target."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import cycle, islice, product

from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.iree.targets import TARGETS, Target
from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.tunings import TUNINGS

TUNING = tuple(tuning for family in TUNINGS.values() for tuning in family.expand({}))
DEFAULT = TUNINGS["default"].expand({})[0]
# Targets with a named CPU are variants of llvm-cpu. Targets of other devices, whose compilers refuse a part of the
# product, are tested in tests/tools/test_devices.py.
RUN_HERE = {name: TARGETS[name] for name in ("llvm-cpu", "vmvx")}
RIGHT_ON_LAVAPIPE = ("f32", "i32", "i64")
"""The types for which lavapipe, a Vulkan driver on the CPU, gives right results with few exceptions.

docs/targets.md lists the exceptions."""
SHAPES = ((40, 24, 56), (1, 24, 40))
"""Two shapes for most operations: no size is a multiple of 16, and the second shape has a dim of 1.

If an operation has more dims than a shape has sizes, the sizes are repeated from the first one."""
SHAPES_OF: dict[str, tuple[tuple[int, ...], ...]] = {
    "conv2d": ((2, 11, 9, 6, 10, 3, 2), (1, 5, 8, 3, 7, 1, 3)),
    "quantized_conv2d": ((2, 11, 9, 5, 6, 3, 2), (1, 5, 8, 3, 7, 1, 3)),
    "depthwise_conv2d": ((2, 11, 9, 5, 3, 2), (1, 5, 8, 7, 1, 3)),
    "attention": ((2, 17, 24, 16, 33), (1, 5, 7, 9, 40)),
    "pooling": ((2, 11, 9, 5, 3, 2), (1, 5, 8, 7, 1, 3)),
    "matmul_splitk": ((40, 24, 54), (1, 24, 42)),
    "scaled_matmul": ((40, 24, 96), (1, 24, 32)),
}
"""The shapes of the operations that cannot use `SHAPES`, for example because a dim is a window's size."""
LARGE = {
    "attention": (2, 32, 64, 64, 4096),
    "batch_matmul": (2, 32, 48, 4096),
    "chain": (32, 1024, 48, 1024),
    "conv2d": (1, 14, 14, 256, 48, 3, 3),
    "depthwise_conv2d": (1, 56, 56, 64, 3, 3),
    "elementwise": (1024, 4096),
    "matmul": (32, 48, 16384),
    "matmul_splitk": (32, 48, 16384),
    "matvec": (512, 16384),
    "norm": (64, 65536),
    "pooling": (1, 56, 56, 64, 3, 3),
    "quantized_conv2d": (1, 14, 14, 256, 48, 3, 3),
    "quantized_matmul": (32, 48, 16384),
    "reduction": (64, 65536),
    "scaled_matmul": (32, 48, 16384),
    "softmax": (64, 65536),
    "transpose": (2048, 3072),
    "vecmat": (512, 16384),
}
"""One large shape for each operation, as in neural networks, with sums of many terms.

An operation that is not in this table gets the sizes 64, 256 and 4,096."""


def operation_of(
    cls: type[Operation], shape: tuple[int, ...], signature: str, layout: str, chosen: tuple[str | int, ...] = ()
) -> Operation:
    sizes = tuple(islice(cycle(shape), len(cls.dims)))
    return cls(sizes, cls.signatures[signature], layout, chosen or cls.make(sizes).chosen)


def chosen_of(cls: type[Operation]) -> Iterator[tuple[str | int, ...]]:
    """Yield tuples of option values: first all defaults, then tuples that differ from these in one value.

    For example, options with the values (1, 2) and ("no", "yes") give (1, "no"), (2, "no"), (1, "yes")."""
    yield (defaults := tuple(option.default for option in cls.options.values()))
    for i, option in enumerate(cls.options.values()):
        for value in option.values[1:2] if isinstance(option.values, range) else option.values[1:]:
            yield (*defaults[:i], value, *defaults[i + 1 :])


def everything(
    targets: Iterable[Target] = RUN_HERE.values(), types: Container[str] | None = None
) -> Iterator[tuple[tuple[object, ...], Case]]:
    """Yield (choices, case) for combinations of operations, types, layouts, options and tunings.

    The choices are (operation, type, layout, option values, tuning, target, shape).

    Args:
        types: the names of the types of the cases; None means all types."""
    for cls in OPERATIONS.values():
        shapes = SHAPES_OF.get(cls.name, SHAPES)
        signatures = [name for name in cls.signatures if types is None or name in types]
        all_chosen = tuple(chosen_of(cls))
        for choice in product(signatures, cls.layouts, all_chosen, TUNING, targets, shapes):
            signature, layout, chosen, tuning, target, shape = choice
            # With other options, layout and tuning are the defaults, but one of them may differ for the first type.
            others = (layout != cls.layouts[0]) + (tuning != DEFAULT)
            if chosen != all_chosen[0] and others > (signature == next(iter(cls.signatures))):
                continue
            operation = operation_of(cls, shape, signature, layout, chosen)
            yield (
                (cls.name, signature, layout, chosen, tuning.name, target.name, shape),
                Case(Dispatch(operation, tuning), target, 1),
            )


def large() -> Iterator[tuple[object, ...]]:
    """Yield a tuple that describes a large case, for each operation, type, layout and target.

    The tuple is (operation, type, layout, option values, tuning, target, shape), with default options and tuning."""
    for cls in OPERATIONS.values():
        for signature, layout, target in product(cls.signatures, cls.layouts, RUN_HERE):
            yield (
                cls.name,
                signature,
                layout,
                next(chosen_of(cls)),
                DEFAULT.name,
                target,
                LARGE.get(cls.name, (64, 256, 4096)),
            )
