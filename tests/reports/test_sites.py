"""The rows and tables of sites are made from programs and times that are written by hand."""

from __future__ import annotations

import pytest

from dispatchflow.iree.profile_events import Repetition
from dispatchflow.models.site import Origin, Program, Site, SourceOperation
from dispatchflow.models.site_times import ProgramTimes, program_times, read_block
from dispatchflow.reports import sites
from tests.support.programs_by_hand import Recorder

OPERATIONS = (
    SourceOperation(0, "linalg.matmul", "up", "net.mlir:3:8"),
    SourceOperation(1, "linalg.transpose", None, "net.mlir:4:8"),
    SourceOperation(2, "linalg.add", None, None),
    SourceOperation(3, "linalg.softmax", "soft", None),
)
PROGRAM = Program(
    OPERATIONS,
    (
        Site(1, "main", False, "exe_0", "matmul", 0, 0, (Origin(0, "location"),), 2_000, 400),
        Site(2, "main", False, "exe_1", "transpose", 0, 1, (Origin(1, "data flow"),), 0, 400),
        Site(3, "init", True, "exe_2", "add", 1, 0, (Origin(2, "location"),)),
    ),
)


def times(program: Program, *buffers: list[str], calls: int = 4) -> ProgramTimes:
    recorder = Recorder()
    for _ in range(2 * calls):
        for number, exports in enumerate(buffers, 7):
            recorder.execute(number, exports)
    each_ns = 1000 * calls
    repetitions = [Repetition(calls, each_ns), Repetition(calls, each_ns)]
    return program_times(program, [read_block(program, recorder.profile(), repetitions)] * 9)


@pytest.fixture
def timed() -> ProgramTimes:
    return times(PROGRAM, ["matmul", "transpose"])


def test_a_row_has_the_operations_times_and_rates_of_a_site(timed: ProgramTimes) -> None:
    ceilings = {1: (400e9, 160e9), 2: (None, 160e9)}
    first, second, third = sites.rows("net", PROGRAM, timed, ceilings, {"matmul": "matmul 8x8"})
    assert set(first) == set(sites.COLUMNS)
    assert first["operations"] == ["up"] and first["evidence"] == "location" and first["configuration"] == "matmul 8x8"
    assert (first["executions"], first["median_ns"], first["flops_per_s"]) == (1, 10, 200e9)
    assert (first["bound"], first["percent_of_peak"]) == ("compute", 50)
    assert second["operations"] == ["linalg.transpose net.mlir:4:8"] and second["bound"] == "memory"
    assert (third["median_ns"], third["untimed"], third["operations"]) == (None, "at load", ["linalg.add #2"])


def test_a_site_with_another_configuration_alone_is_named() -> None:
    here = {"matmul": "matmul 8x8", "transpose": "copy"}
    known = {1: ("matmul 4x4",), 2: ("copy",), 3: ("add",)}
    alone = {site: sites.Alone(f"case_{site}", 1.0, None, None, *found) for site, found in known.items()}
    (line,) = sites.reconfigured(PROGRAM, here, alone)
    assert line.startswith("site 1: the compiler applied matmul 4x4 alone in case_1, and matmul 8x8 here")
    assert sites.reconfigured(PROGRAM, here, {1: sites.Alone("case_1", 1.0, None, None)}) == []


def test_one_line_names_the_sites_whose_times_alone_differ_the_largest_difference_first() -> None:
    timed = times(PROGRAM, ["matmul", "transpose"])

    def line(*own: tuple[float, float, float]) -> list[str]:
        return sites.departures(timed, {i: sites.Alone(f"case_{i}", *each) for i, each in enumerate(own, 1)})

    apart = "the time alone differs from the time here by more than the noise: site 2 +50%, site 1 -10%"
    hint = "; measure them with cache=cold too, to see whether caches are the cause"
    assert line((9, 8, 9.5), (15, 14, 16)) == [apart + hint]
    assert line((9, 8, 10), (15, 9, 20)) == []  # the intervals overlap
    assert sites.departures(timed, {1: sites.Alone("case", 99.0, None, None)}) == []
    known = {1: sites.Alone("case", 9, 8, 9.5, None, 12), 2: sites.Alone("case", 15, 14, 16)}
    assert sites.departures(timed, known) == [apart.replace("-10%", "-10% (with cold inputs +20%)")]


def test_one_line_names_the_site_that_is_most_above_the_highest_rates() -> None:
    rows = [{"site": str(i), "percent_of_peak": percent} for i, percent in enumerate((109.0, None, 175.0, 187.4), 1)]
    (line,) = sites.above_ceilings(rows, 1.1)
    assert line.startswith("2 sites above the machine's highest rates, such as 4 (187%): small arrays are in ")
    assert sites.above_ceilings(rows[:2], 1.1) == []


def test_a_table_names_what_is_guessed_untimed_and_in_no_site(timed: ProgramTimes) -> None:
    text = sites.table(sites.rows("net", PROGRAM, timed))
    _, first, second, third = text.splitlines()
    assert first.split()[:3] == ["1", "1", "10.0"] and first.split()[-2:] == ["matmul", "up"]
    assert second.endswith("linalg.transpose net.mlir:4:8 (by data flow)")
    assert "add (at load)" in third
    call, absent = sites.remarks(PROGRAM, timed, None)
    assert call.startswith("one call takes 1.00 µs: dispatches 20.0 ns, launching ")
    assert absent == "in no site, because they are constant, part of others, done in place, or plain copies: soft"
    assert "no times: no device" in sites.remarks(PROGRAM, None, "no times: no device")


def test_without_times_there_are_sites_and_no_numbers() -> None:
    rows = sites.rows("net", PROGRAM, None)
    assert [row["site"] for row in rows] == ["1", "2", "3"]
    assert {row["median_ns"] for row in rows} == {None} and {row["untimed"] for row in rows} == {None}
    assert sites.table([]) == "no sites: this program launches no dispatch"


def test_sites_that_cannot_be_distinguished_share_a_row() -> None:
    twins = Program(
        OPERATIONS,
        tuple(Site(number, "main", False, "exe_0", "matmul", number, 0, flops=2_000) for number in (1, 2)),
    )
    found = ProgramTimes((), {}, times(twins, ["matmul"], ["matmul"]).split, True)
    both = times(twins, ["matmul"], calls=1)
    (row,) = sites.rows("net", twins, both)
    assert row["site"] == "1|2" and row["flops_per_s"] is None  # which of the two ran is unknown
    assert any("1|2" in line for line in sites.remarks(twins, both, None))
    assert len(sites.rows("net", twins, found)) == 2


def test_parts_add_up_by_operation(timed: ProgramTimes) -> None:
    header, *lines = sites.parts(PROGRAM, timed, "op", 1).splitlines()
    assert header.split() == ["part", "sites", "calls", "median", "±", "share"]
    assert sorted(line.split()[0] for line in lines) == ["linalg.transpose", "up"]
