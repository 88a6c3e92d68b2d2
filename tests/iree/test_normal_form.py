"""Modules have equal normal forms if they differ only in locations and in names of values and aliases."""

from __future__ import annotations

import pytest

from dispatchflow.iree import normal_form

MODULE = """\
#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0) -> (0)>
module @m {
  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %cst = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<4xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
    %2:2 = linalg.generic {indexing_maps = [#map, #map1], doc = "of %0 and #map"} ins(%1 : tensor<4xf32>)
    return %2#0 : tensor<4xf32>
  }
}
"""


def test_values_are_named_after_their_operations_and_aliases_by_what_they_stand_for() -> None:
    found = normal_form.lines(MODULE)
    maps = [line.partition(" = ")[0] for line in found[:2]]
    assert all(name.startswith("#map.") for name in maps)
    assert found[3] == "  func.func @main(%arg.0: tensor<4xf32>) -> tensor<4xf32> {"
    assert found[6] == "    %fill.0 = linalg.fill ins(%cst.0 : f32) outs(%empty.0 : tensor<4xf32>) -> tensor<4xf32>"
    assert found[7].startswith(f"    %generic.0:2 = linalg.generic {{indexing_maps = [{maps[0]}, {maps[1]}], ")
    assert 'doc = "of %0 and #map"' in found[7]
    assert found[8] == "    return %generic.0#0 : tensor<4xf32>"


@pytest.mark.parametrize(
    ("old", "new"),
    (
        ("%0", "%7"),
        ("%cst", "%cst_3"),
        ("%arg0", "%arg12"),
        ("#map1", "#map5"),
        (") -> tensor<4xf32>\n", ') -> tensor<4xf32> loc(fused["a(b", #loc3])\n'),
        ("module @m", '#loc = loc("a.mlir":1:2)\nmodule @m'),
        ("module @m", "#map8 = affine_map<(d0) -> (0)>\nmodule @m"),
    ),
)
def test_numbers_and_locations_are_no_difference(old: str, new: str) -> None:
    text = MODULE.replace('"of %0 and #map"', '""')
    assert normal_form.lines(text.replace(old, new)) == normal_form.lines(text)


@pytest.mark.parametrize(
    ("old", "new"),
    (
        ("outs(%0 ", "outs(%cst "),
        ("affine_map<(d0) -> (0)>", "affine_map<(d0) -> (1)>"),
        ("[#map, #map1]", "[#map1, #map]"),
        ("arith.constant 0.0", "arith.constant 1.0"),
        ("of %0", "of %1"),
    ),
)
def test_a_change_of_what_a_module_computes_is_a_difference(old: str, new: str) -> None:
    assert normal_form.lines(MODULE.replace(old, new)) != normal_form.lines(MODULE)


def test_one_more_operation_is_one_more_line() -> None:
    more = MODULE.replace("    %0 =", "    %0 = tensor.dim %arg0 : tensor<4xf32>\n    %9 =")
    more = more.replace("outs(%0 ", "outs(%9 ")
    assert len(set(normal_form.lines(more)) ^ set(normal_form.lines(MODULE))) == 1


def test_each_function_counts_its_own_values() -> None:
    text = "util.func public @a(%arg0: i32) {\n  %0 = arith.addi %arg0, %arg0 : i32\n}\n"
    first, second = normal_form.lines(text * 2)[:3], normal_form.lines(text * 2)[3:]
    assert first == second


def test_long_constants_are_shortened_to_their_digest() -> None:
    one, other = (normal_form.lines(f'dense<"0x{digits * 64}"> : tensor<64xi4>')[0] for digits in "12")
    assert one != other and len(one) < 60 and "32 bytes" in one
