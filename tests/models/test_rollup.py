"""The times of sites are summed by operation, by scope (a prefix of names) or by executable.

The sums add up exactly to the time of all dispatches of the program."""

import msgspec
import pytest
from support.programs_by_hand import Recorder, program

from dispatchflow.iree.profile_events import Repetition
from dispatchflow.models.rollup import NO_SOURCE, UNNAMED, rolled_up, scope_of
from dispatchflow.models.site import Origin, Program, SourceOperation
from dispatchflow.models.site_times import program_times, read_block

OPERATIONS = (
    SourceOperation(0, "linalg.fill", None, "net.mlir:1:1"),
    SourceOperation(1, "onnx.Conv", "blocks.0.conv"),
    SourceOperation(2, "onnx.Relu", "blocks.0.relu"),
    SourceOperation(3, "onnx.Conv", "blocks.1.conv"),
    SourceOperation(4, "linalg.matmul", None, "net.mlir:5:2"),
)
ORIGINS = [(0, 1, 2), (3,), (1, 0, 2), (4,), (0,), ()]


def with_times():
    exports = ["a", "b", "a", "c", "c", "c"]
    bare = program(exports)
    sites = tuple(
        msgspec.structs.replace(site, origins=tuple(Origin(number, "location") for number in numbers))
        for site, numbers in zip(bare.sites, ORIGINS, strict=True)
    )
    made = Program(OPERATIONS, sites)
    recorder = Recorder()
    for _ in range(2):
        recorder.execute(1, exports)
    return made, program_times(made, [read_block(made, recorder.profile(), [Repetition(1, 1000)] * 2)])


def parts(by, depth=1):
    made, times = with_times()
    found = rolled_up(made, times, by, depth)
    assert sum(part.own_ns for part in found) == times.split.dispatches_ns
    assert sorted(number for part in found for number in part.sites) == [1, 2, 3, 4, 5, 6]
    return {part.name: part.sites for part in found}


def test_sites_of_the_same_operations_are_one_part():
    assert parts("op") == {
        "blocks.0.conv + blocks.0.relu": (1, 3),
        "blocks.1.conv": (2,),
        "linalg.matmul net.mlir:5:2": (4,),
        "linalg.fill net.mlir:1:1": (5,),
        NO_SOURCE: (6,),
    }


def test_scopes_are_the_first_components_of_names():
    assert parts("scope", 2) == {"blocks.0": (1, 3), "blocks.1": (2,), UNNAMED: (4, 5), NO_SOURCE: (6,)}
    assert parts("scope", 1) == {"blocks": (1, 2, 3), UNNAMED: (4, 5), NO_SOURCE: (6,)}


def test_sites_are_summed_by_executable():
    assert parts("executable") == {"exe_c": (4, 5, 6), "exe_a": (1, 3), "exe_b": (2,)}


def test_the_longest_part_comes_first_with_its_executions():
    made, times = with_times()
    first = rolled_up(made, times, "executable")[0]
    assert (first.name, first.executions, first.own_ns, first.summary.median_ns) == ("exe_c", 3, 30, 30)
    assert first.share == pytest.approx(30 / 1000)


@pytest.mark.parametrize(
    ("name", "depth", "scope"),
    [
        ("blocks.0.attn/linear", 1, "blocks"),
        ("blocks.0.attn/linear", 3, "blocks.0.attn"),
        ("blocks.0.attn/linear", 9, "blocks.0.attn/linear"),
        ("/layer1/conv2", 1, "/layer1"),
        ("conv", 1, "conv"),
        (None, 1, UNNAMED),
    ],
)
def test_a_scope_is_a_prefix_of_a_name(name, depth, scope):
    assert scope_of(name, depth) == scope
