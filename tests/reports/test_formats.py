"""Rows, and the single values in them, are written as text, Markdown, CSV and JSON lines."""

import csv
import datetime
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.project import REPOSITORY

from dispatchflow import units
from dispatchflow.reports import summary, table
from dispatchflow.reports.summary import applied
from dispatchflow.reports.table import FORMATS, aligned, comma_separated, json_lines, markdown, text

COLUMNS = ("case", "status", "median_ns", "tags", "measured_at")
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 250_000, datetime.UTC)
ROWS = [
    {"case": "a", "status": "measured", "median_ns": 1234.5678901234567, "tags": ["x", "y"], "measured_at": NOON},
    {"case": 'b, "quoted"\nline', "status": None, "median_ns": 1e-7, "tags": [], "measured_at": None, "more": 1},
    {"case": "c|d"},
]
CELLS = st.none() | st.text(max_size=8) | st.integers() | st.floats(allow_nan=False, allow_infinity=False)


def test_columns_of_text_are_aligned_numbers_to_the_right():
    shown = text(("name", "ns"), [{"name": "a", "ns": 1.5}, {"name": "long", "ns": 20000}])
    assert shown.splitlines() == ["name     ns", "a       1.5", "long  20000"]


def test_a_format_is_added_as_the_page_says():
    page = (REPOSITORY / "docs/adding.md").read_text()
    (code,) = re.findall(r"^## A report format.*?^```python\n(.*?)^```", page, re.M | re.S)
    names = dict(vars(table))
    exec(code, names)

    shown = names["tab_separated"](("case", "median_ns"), [{"case": "a", "median_ns": 1234.5}, {"case": "b"}])

    assert shown == "case\tmedian_ns\na\t1,234\nb\t"


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((999.96, 7664.2, 16161.0, 130832.0), ["1,000", "7,664", "16,161", "130,832"]),
        ((0.5, 50_803_200.0, 3.976e10), ["0.5", "5.080e+07", "3.976e+10"]),
    ],
)
def test_large_numbers_of_a_column_have_one_form(values, shown):
    assert [line.strip() for line in text(("ns",), [{"ns": v} for v in values]).splitlines()[1:]] == shown


@pytest.mark.parametrize(
    ("score", "shown"),
    [
        (0.0, "0"),
        (1.234e-5, "1.2e-05"),
        (0.00123, "0.0012"),
        (0.0512, "0.051"),
        (0.98, "0.98"),
        (3.14159, "3.14"),
        (2e4, "2e+04"),
    ],
)
def test_a_score_has_two_digits_however_small(score, shown):
    assert summary.verification({"verification": "within bound", "score": score}) == f"within bound {shown}"


@given(st.lists(st.tuples(*[st.text("ab é", max_size=5)] * 3), min_size=1), st.tuples(*[st.booleans()] * 3))
def test_every_cell_of_an_aligned_table_starts_or_ends_at_its_column(lines, right):
    widths = [max(len(line[i]) for line in lines) for i in range(3)]
    for line, shown in zip(lines, aligned(lines, right).split("\n"), strict=True):
        padded, start = shown.ljust(sum(widths) + 4), 0
        for cell, width, to_right in zip(line, widths, right, strict=True):
            found = padded[start : start + width]
            assert found == (cell.rjust(width) if to_right else cell.ljust(width))
            start += width + 2


@given(st.lists(st.fixed_dictionaries({"a": CELLS, "b": CELLS}), max_size=5))
def test_csv_reads_back_as_what_was_written(rows):
    header, *found = csv.reader(io.StringIO(comma_separated(("a", "b"), rows), newline=""))
    assert header == ["a", "b"]
    assert found == [["" if row[c] is None else str(row[c]) for c in ("a", "b")] for row in rows]


def test_csv_keeps_all_digits_lists_as_json_and_times_as_iso():
    _, first, second, third = csv.reader(io.StringIO(comma_separated(COLUMNS, ROWS), newline=""))
    assert float(first[2]) == ROWS[0]["median_ns"]
    assert json.loads(first[3]) == ["x", "y"]
    assert datetime.datetime.fromisoformat(first[4]) == NOON
    assert second == ['b, "quoted"\nline', "", "1e-07", "[]", ""]
    assert third == ["c|d", "", "", "", ""]


@given(st.lists(st.fixed_dictionaries({"a": CELLS, "b": st.lists(CELLS, max_size=2)}), max_size=5))
def test_json_lines_read_back_as_what_was_written(rows):
    shown = json_lines(("a", "b"), rows)
    assert [json.loads(line) for line in shown.split("\n") if line] == rows


def test_json_lines_have_every_column_and_no_other():
    found = [json.loads(line) for line in json_lines(COLUMNS, ROWS).split("\n")]
    assert [tuple(row) for row in found] == [COLUMNS] * 3
    assert found[2] == {"case": "c|d", "status": None, "median_ns": None, "tags": None, "measured_at": None}
    assert datetime.datetime.fromisoformat(found[0]["measured_at"]) == NOON


def test_json_lines_contain_only_valid_json_constants():
    json.loads(json_lines(("score",), [{"score": float("inf")}]), parse_constant=pytest.fail)


def test_markdown_escapes_its_separator():
    lines = markdown(("case", "median_ns"), [ROWS[2], ROWS[0]]).splitlines()
    assert lines == ["| case | median_ns |", "| --- | --- |", "| c\\|d |  |", "| a | 1,235 |"]


@pytest.mark.parametrize("style", ["markdown", "text"])
def test_row_is_one_line_whatever_its_cells_hold(style):
    assert (
        len(FORMATS[style](("reason",), [{"reason": "failed:\n  found  x"}]).splitlines())
        == {"markdown": 3, "text": 2}[style]
    )


@pytest.mark.parametrize("style", FORMATS)
def test_no_rows_are_a_header_or_nothing(style):
    assert "status" in FORMATS[style](COLUMNS, []) or style == "jsonl"


TILES = {
    "DoubleTilingExpert fill<vector_common_parallel = [8, 16]> matmul<distribution = [64, 64, 0], "
    "vector_common_parallel = [8, 16, 0], vector_reduction = [0, 0, 16]>": "matmul 64x64 vector 8x16 k 16",
    "DoubleTilingExpert matmul<cache_parallel = [3, 5, 0], cache_reduction = [0, 0, 7], distribution = [64, 64, 0], "
    "vector_reduction = [0, 0, 4]>": "matmul 64x64 cache 3x5 cache k 7 k 4",
    # cuda and rocm: the compiler's own configuration, and a tuning's
    "TileAndFuse workgroup_size = [128, 1, 1] subgroup_size = 32, gpu_pipeline_options = "
    "#iree_gpu.pipeline_options<prefetch_num_stages = 2> generic<mma_kind = "
    "#iree_gpu.mma_layout<NV_MMA_SYNC_F32_16x8x16_F16>, promote_operands = [0, 1], reduction = [0, 0, 8], "
    "subgroup = [2, 4, 0], workgroup = [64, 64, 0]>": "generic 64x64 subgroup 2x4 k 8",
    "VectorDistribute workgroup_size = [256, 1, 1] subgroup_size = 32 generic<reduction = [0, 0, 32], subgroup_basis = "
    "[[4, 2, 1], [0, 1, 2]], workgroup = [256, 128, 0]>": "generic 256x128 k 32",
    # SPIR-V: all levels in one list
    "BaseVectorize workgroup_size = [8, 8, 1] generic<tile_sizes = [[64, 64], [8, 8], [0, 0, 4]]>": "generic 64x64 8x8 4",
    # a copy of the padding, then the convolution
    "BufferOpsTileAndVectorize generic<distribution = [2, 4, 16, 32], vector_common_parallel = [1, 1, 1, 16]> | "
    "ConvTileAndDecomposeExpert generic<distribution = [0, 8, 32, 32, 0, 0, 0], vector_common_parallel = "
    "[1, 1, 8, 32, 0, 0, 0], vector_reduction = [0, 0, 0, 0, 1, 1, 8]>": "generic 8x32x32 vector 1x1x8x32 k 1x1x8",
    # a slice of the sum, then their sum
    "DoubleTilingExpert generic<distribution = [2, 64, 64, 0]> | DoubleTilingExpert generic<distribution = [32, 0]>": (
        "generic 2x64x64"
    ),
    "vmvx_pipeline matmul<distribution = [64, 64, 0]>": "matmul 64x64",
    "Distribute workgroup_size = [1, 1, 1] subgroup_size = 64": "Distribute",
    "none": "none",
    "": "",
}


@pytest.mark.parametrize(("configuration", "shown"), TILES.items())
def test_the_applied_column_shows_the_main_ops_tiles_on_every_backend(configuration, shown):
    assert applied(configuration) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((0.4, "0.40 ns"), (999.0, "999 ns"), (1000.0, "1.00 µs"), (12_345.0, "12.3 µs"), (1.5e6, "1.50 ms")),
        *((2e9, "2.00 s"), (3.6e12, "3600 s"), (1e300, "1e+291 s"), (1e-9, "1e-09 ns")),
    ],
)
def test_nanoseconds_have_three_digits_and_a_unit(value, shown):
    assert units.nanoseconds(value) == shown


def test_seconds_of_minutes_are_minutes():
    assert [units.seconds(s) for s in (0.412, 59.9, 252)] == ["412 ms", "59.9 s", "4 min 12 s"]
    assert units.seconds(1e290) == "1e+290 s"
    assert units.giga(8.192e21) == "8.19e+12"
