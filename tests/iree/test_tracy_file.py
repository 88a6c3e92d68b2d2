"""`tracy_file.read` reads files of `tests/support/tracy.py`, and the first part of a real file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dispatchflow.errors import SpecError, ToolError
from dispatchflow.iree import tracy_file
from tests.support import tracy

NESTED = [(0, 0, 100, 200, [(1, 0, 110, 130, []), (1, 0, 140, 150, []), (-1, 1, 160, 165, [])])]


def test_zones_are_added_up_by_their_place_with_the_zones_inside_them() -> None:
    found = tracy_file.read(tracy.file(tracy.content([NESTED, [(0, 0, 1000, 1300, [])]])))
    assert found.version == (0, 11, 2) and found.program == "net" and (found.recorded, found.unfinished) == (5, 0)
    shown = [(zone.name, zone.count, zone.total_ns, zone.median_ns, zone.source) for zone in found.zones]
    assert shown == [
        ("outer", 2, 400, 200.0, "net.mlir:12"),
        ("inner", 2, 30, 15.0, None),  # a line is meaningless in code without symbols
        ("own name", 1, 5, 5.0, None),
    ]


def test_a_zone_that_had_not_ended_has_no_time() -> None:
    found = tracy_file.read(tracy.file(tracy.content([[(0, 0, 100, -1, [(1, 0, 110, 130, [])])]])))
    assert found.unfinished == 1 and [(zone.name, zone.count) for zone in found.zones] == [("inner", 1)]


def test_blocks_of_several_streams_are_one_content() -> None:
    many = [(1, 0, i * 10, i * 10 + 3, []) for i in range(20_000)]
    whole = tracy.content([many])
    assert len(whole) > 5 * tracy.BLOCK
    for streams in (1, 3):
        (zone,) = tracy_file.read(tracy.file(whole, streams)).zones
        assert (zone.count, zone.total_ns) == (20_000, 60_000)


def test_a_file_of_another_version_is_refused_by_its_version() -> None:
    for version in ((0, 10, 0), (0, 12, 0), (0, 14, 1)):
        with pytest.raises(SpecError, match="another version of Tracy") as refused:
            tracy_file.read(tracy.file(tracy.content([], version) + bytes(1 << 20)))
        assert ".".join(map(str, version)) in str(refused.value) and "0.11.x" in str(refused.value)
    assert tracy_file.read(tracy.file(tracy.content([], (0, 11, 0)))).zones == ()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no .tracy file"),
        (b"tlZ\x04 an old file", "no .tracy file"),
        (b"tr\xfdP\x01", "damaged"),
        (b"tr\xfdP\x01\x02", "damaged"),
        (b"tr\xfdP\x01\x02\xff\xff\xff\xff", "damaged"),
        (b"tr\xfdP\x01\x01\x04\x00\x00\x00abcd", "damaged"),
        (tracy.file(b"something else"), "damaged"),
        (tracy.file(tracy.content([]), compression=0), "another compression"),
    ],
)
def test_a_file_that_is_not_a_tracy_file_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        tracy_file.read(content)


def test_a_content_that_ends_anywhere_before_its_zones_do_is_damaged() -> None:
    whole = tracy.content([NESTED]).removesuffix(b"what follows is not read")
    for length in range(8, len(whole)):
        with pytest.raises(SpecError, match="damaged"):
            tracy_file.read(tracy.file(whole[:length]))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ToolError, match="zstandard") as missing:
        tracy_file.read(tracy.file(tracy.content([])))
    assert "dispatchflow[tracy]" in str(missing.value)


def test_a_file_of_iree_is_read_whole() -> None:
    # IREE 3.13 recorded two calls of a 64×64×64 matmul. The file is cut off after the zones.
    found = tracy_file.read((Path(__file__).parent.parent / "data/tracy/matmul.tracy").read_bytes())
    assert found.version == (0, 11, 2) and found.program == "iree-benchmark-module"
    assert (found.recorded, sum(zone.count for zone in found.zones), found.unfinished) == (436, 436, 0)
    named = {zone.name: zone for zone in found.zones}
    assert len(found.zones) == 183 and tracy_file.UNNAMED not in named
    kernel, call = named["main_dispatch_0_matmul_64x64x64_f32"], named["BenchmarkIteration"]
    assert (kernel.count, kernel.source, call.count) == (16, "mm.mlir:1", 2)
    assert call.source == "c/tools/iree-benchmark-module-main.cc:895"
    assert kernel.total_ns < call.total_ns < named["BM_main"].total_ns
