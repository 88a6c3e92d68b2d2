"""Each named set of shapes, such as `aligned`, has the properties that docs/shapes.md states.

Such a set is called a class. Specs and the command line accept the names of classes."""

from __future__ import annotations

import re
import time
from math import prod
from pathlib import Path

import pytest
from support.project import REPOSITORY

from dispatchflow.errors import SpecError
from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.planning import inference, sweep_words
from dispatchflow.planning.shapes import Shape, classes, classes_of
from dispatchflow.project.workspace import Workspace
from dispatchflow.reports.shapes import page

EACH = [
    pytest.param(name, operation, id=f"{name}-{operation}")
    for name in classes()
    for operation in classes()[name].shapes
]


def meant_by(dims: int) -> str:
    having = [name for name, operation in OPERATIONS.items() if len(operation.dims) == dims]
    return f"operation={next(name for name in having if OPERATIONS[name].by_dims)}."


def made(operation: str, shape: Shape) -> Operation:
    return OPERATIONS[operation].make(shape.sizes, **dict(shape.options))


@pytest.mark.parametrize(("name", "operation"), EACH)
def test_every_shape_fits_its_operation_and_no_two_are_equal(name, operation):
    shapes = classes()[name].shapes[operation]
    cls = OPERATIONS[operation]
    for shape in shapes:
        assert len(shape.sizes) == len(cls.dims)
        for word, value in shape.options:
            assert cls.options[word].parse(value) == value
        assert made(operation, shape).illegal("llvm-cpu") is None
    assert len({made(operation, shape) for shape in shapes}) == len(shapes)


def inner(operation: str, shape: Shape) -> list[int]:
    """Return the sizes of a shape, except the batch size and the sizes of windows."""
    own = zip(OPERATIONS[operation].dims, shape.sizes, strict=True)
    images = "h" in OPERATIONS[operation].dims
    return [size for dim, size in own if dim not in ("b", "kh", "kw", *(["n"] if images else []))]


HOLDS = {
    "aligned": lambda sizes, operation: all(size % 64 == 0 for size in sizes),
    "unaligned": lambda sizes, operation: any(size % 16 for size in sizes),
    "narrow": lambda sizes, operation: max(sizes) >= 32 * min(sizes),
    "tiny": lambda sizes, operation: prod(sizes) <= 2**16 and max(sizes) <= 32,
    "large_k": lambda sizes, operation: max(operation.flops() // operation.result().size, sizes[-1]) >= 500,
}


@pytest.mark.parametrize(
    ("name", "operation"), [pytest.param(*each.values, id=each.id) for each in EACH if each.values[0] in HOLDS]
)
def test_a_class_has_the_property_that_its_name_says(name, operation):
    for shape in classes()[name].shapes[operation]:
        assert HOLDS[name](inner(operation, shape), made(operation, shape)), shape


@pytest.mark.parametrize(
    "operation", dict.fromkeys(operation for known in classes().values() for operation in known.shapes)
)
def test_every_operation_with_shapes_has_the_four_basic_classes(operation):
    assert set(classes_of(operation)) >= {"aligned", "unaligned", "narrow", "tiny"}


def multiply_adds(name: str, *operations: str) -> int:
    """Return how many multiply-adds the layers of a network need for one image.

    `name` is the network's class of shapes. The description of a shape says how many layers have this shape."""
    total = 0
    for operation in operations:
        for shape in classes()[name].shapes[operation]:
            times = re.search(r"(\d+) times|(twice)", shape.what)
            total += made(operation, shape).flops() // 2 * (1 if times is None else int(times[1] or 2))
    return total


def test_networks_have_the_published_number_of_multiply_adds():
    # The published numbers are multiply-adds for one image, or for one token and layer. - ResNet-50 v1.5: 4.09 G
    # (torchvision) - MobileNet: 569 M (Howard et al. 2017, table 4), of which 1 M are the classifier's - BERT-base: 12
    # · width²
    assert multiply_adds("resnet50", "conv2d", "matmul") == pytest.approx(4.09e9, rel=0.002)
    assert multiply_adds("mobilenet_v1", "conv2d", "depthwise_conv2d") == pytest.approx(568e6, rel=0.002)
    assert multiply_adds("bert_base", "matmul") == (128 + 384) * 12 * 768**2


def test_aligned_shapes_take_the_memory_that_the_page_states():
    found = [
        made(operation, shape).traffic_bytes() / 2**10
        for operation, shapes in classes()["aligned"].shapes.items()
        for shape in shapes
        if "f32" in OPERATIONS[operation].signatures
    ]
    assert "from 64 KiB, more than a first cache, to 192 MiB" in classes()["aligned"].reason
    assert (min(found) // 1, max(found)) == (64, 192 * 2**10)


def test_a_decoder_reads_causally_and_writes_for_one_sequence_and_for_16():
    shapes = {name: classes()[f"llama_{name}"].shapes for name in ("prefill", "decode")}
    assert [dict(shape.options) for shape in shapes["prefill"]["attention"]] == [{"causal": "yes"}]
    for operation in set(shapes["decode"]) - {"vecmat"}:
        firsts = sorted({shape.sizes[0] for shape in shapes["decode"][operation]})
        assert [16 * firsts[0]] == firsts[1:], operation


def test_every_class_gives_its_reason_and_source_on_the_page():
    assert all(known.reason.strip() and known.source for known in classes().values())
    assert (REPOSITORY / "docs/shapes.md").read_text() == page(), "`doit docs` writes it"


# --- in specs and on the command line


def test_classes_and_shapes_combine_and_each_shape_counts_once(plan_of):
    found = plan_of('[[sweep]]\noperation = "matmul"\nshape = ["3x5x7", "tiny", "64x80x96"]\ndtype = ["f32", "f16"]\n')
    sizes = [shape.sizes for shape in classes_of("matmul")["tiny"]]
    wanted = dict.fromkeys([(3, 5, 7), *sizes, (64, 80, 96)])
    assert [case.operation.sizes for case in found.cases][::2] == list(wanted)
    assert len(found.cases) == 2 * len(wanted)


def test_a_network_fixes_some_options_and_the_others_are_swept(plan_of):
    found = plan_of('[[sweep]]\noperation = "conv2d"\nshape = ["resnet50", "1x8x8x4x4x3x3"]\ndilation = [1, 2]\n')
    cases = {case.operation: case for case in found.cases}
    first = next(iter(cases))
    assert (first.sizes, first.option("stride"), first.option("padding")) == ((1, 224, 224, 3, 64, 7, 7), 2, 3)
    assert {operation.option("dilation") for operation in cases} == {1, 2}
    assert {o.option("stride") for o in cases if o.sizes == (1, 8, 8, 4, 4, 3, 3)} == {1}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"operation": ("transpose",), "shape": "large_k"}, ["transpose has no shapes 'large_k'", "narrow, tiny"]),
        (
            {"operation": ("matmul",), "shape": "alinged"},
            ["'alinged' is not a shape", "aligned", "Did you mean 'aligned'?"],
        ),
        ({"operation": ("conv2d",), "shape": "resnet50", "stride": "2"}, ["fixes stride", "resnet50"]),
        ({"operation": ("matmul",), "shape": "tiny", "m": "8"}, ["both 'shape' and dims"]),
        ({"shape": "alinged"}, ["'alinged' is not a class of shapes", "tiny, large_k", "Did you mean 'aligned'?"]),
        ({"shape": "large_k,transformer"}, ["'transformer' is not a class of shapes", "bert_base, llama_prefill"]),
        (
            {"shape": "tiny,bert_base", "stride": "2"},
            ["no operation with stride=2 has shapes 'bert_base'", "Operations with shapes 'bert_base': matmul, "],
        ),
        (
            {"operation": ("elementwise", "pooling"), "shape": "tiny", "kind": "add"},
            ["kind of pooling cannot be 'add'"],
        ),
        ({"operation": ("matmul", "pooling"), "shape": "tiny", "layout": "tt"}, ["unknown layout of pooling 'tt'"]),
        ({"operation": ("conv2d", "transpose"), "shape": "resnet50"}, ["transpose has no shapes 'resnet50'"]),
        ({"shape": "64x64x64"}, ["several operations have 3 dims", "matmul: m, n, k", meant_by(3)]),
        ({"shape": "64x64"}, ["several operations have 2 dims", "matvec: m, k", meant_by(2)]),
        ({"shape": "tiny 4x4x4x4"}, ["several operations have 4 dims", meant_by(4)]),
        ({"shape": "1x2x3x4x5x6x7x8"}, ["no operation has 8 dims"]),
        ({"shape": "tiny", "specs": ("a.toml",)}, ["specs= and a sweep are both given"]),
    ],
)
def test_a_wrong_shape_is_an_error_that_lists_the_known_shapes(words, says, tmp_path: Path):
    with pytest.raises(SpecError) as caught:
        _ = Workspace(tmp_path, words).plan
    for part in says:
        assert part in str(caught.value)


def test_the_hint_for_sizes_that_fit_several_operations_names_the_usual_one(monkeypatch):
    monkeypatch.setattr(inference, "OPERATIONS", dict(reversed(OPERATIONS.items())))
    with pytest.raises(SpecError) as caught:
        inference.by_shapes("64x64x64", {})
    assert caught.value.hint == "Say which: operation=matmul."


def test_without_an_operation_a_class_is_swept_by_all_operations_that_have_it(tmp_path: Path):
    found = Workspace(tmp_path, {"shape": "llama_decode", "threads": "1"}).plan
    assert {case.operation.name for case in found.cases} == set(classes()["llama_decode"].shapes)
    strided = Workspace(tmp_path, {"shape": "tiny", "dilation": "1"}).plan
    assert {case.operation.name for case in strided.cases} == {
        name for name in classes()["tiny"].shapes if "dilation" in OPERATIONS[name].options
    }


def test_without_an_operation_each_operation_is_swept_with_the_classes_it_has(tmp_path: Path):
    named = ["resnet50", "bert_base"]
    found = Workspace(tmp_path, {"shape": ",".join(named), "threads": "1"}).plan
    wanted = {name: [shape for word in named for shape in classes_of(name).get(word, ())] for name in OPERATIONS}
    assert {case.operation.name for case in found.cases} == {name for name, shapes in wanted.items() if shapes}
    swept = [case.operation.sizes for case in found.cases if case.operation.name == "matmul"]
    assert set(swept) == {shape.sizes for shape in wanted["matmul"]}


def test_several_operations_are_a_sweep_of_each(tmp_path: Path):
    found = Workspace(tmp_path, {"operation": ("conv2d", "matmul"), "shape": "tiny", "threads": "1"}).plan
    assert {case.operation.name for case in found.cases} == {"conv2d", "matmul"}


def test_a_plan_of_all_classes_takes_little_time(plan_of):
    words = 'layout = ["tt", "tn", "nt", "nn"]\naccumulate = ["no", "yes"]\ntuning = ["default", "double_tiling"]\n'
    dtypes = "dtype = " + str(list(OPERATIONS["matmul"].signatures)).replace("'", '"') + "\n"
    shape = "shape = " + str(list(classes_of("matmul"))).replace("'", '"') + "\n"
    began = time.thread_time()
    found = plan_of('[[sweep]]\noperation = "matmul"\n' + shape + words + dtypes + "threads = [1, 2]\n")
    assert len(found.cases) + len(found.skips) > 10_000
    assert time.thread_time() - began < 20  # it takes about one second


def test_a_list_for_an_operation_with_another_number_of_dims_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_words, "classes_of", lambda _: classes_of("matmul"))
    with pytest.raises(
        SpecError, match="class 'tiny' has a shape for transpose with the wrong number of sizes:\n  shape  "
    ):
        _ = Workspace(tmp_path, {"operation": ("transpose",), "shape": "tiny"}).plan
