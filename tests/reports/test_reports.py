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
from dispatchflow.planning.plan import Skip
from dispatchflow.reports import noise, summary, table
from dispatchflow.reports.best import best, columns, newest, notes
from dispatchflow.reports.providers import compared
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


def test_json_lines_hold_no_word_that_json_lacks():
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
    # cuda and rocm: their own, and a tuning's
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
def test_what_is_shown_as_applied_are_the_main_ops_tiles_on_every_backend(configuration, shown):
    assert applied(configuration) == shown


UNSURE = ("mistrusted", "not compared", "not verified")


def row(case="c", tuning="default", median_ns=100.0, verification="equal", status="measured", **more):
    return {
        "case": case, "tuning": tuning, "median_ns": median_ns, "verification": verification, "status": status,
        "shape": "s", "target": "llvm-cpu", "threads": 1, "protocol": "std-1", "flops_per_s": 2e9, "reason": None,
        "applied_configuration": None, "rounds": "run/1",
        "ci_low_ns": median_ns and median_ns * 0.99, "ci_high_ns": median_ns and median_ns * 1.01,
    } | more  # fmt: skip


def test_newest_row_of_each_case_stands():
    rows = [row("a", median_ns=1), row("b", median_ns=2), row("a", median_ns=3)]
    assert [(r["case"], r["median_ns"]) for r in newest(rows)] == [("a", 3), ("b", 2)]


def test_run_without_a_device_hides_nothing_that_was_found_of_the_same_code():
    a, b = row(code_digest="a"), row(code_digest="b", median_ns=50.0)
    absent = {digest: row(code_digest=digest, status="no device", median_ns=None) for digest in "ab"}
    assert newest([a, absent["a"]]) == [a]
    assert newest([a, absent["b"]]) == [absent["b"]]  # other code: nobody knows how fast it is
    assert newest([a, b, absent["a"]]) == newest([a, absent["b"], absent["a"]]) == [a]
    wrong = row(code_digest="a", status="failed")
    assert newest([a, wrong, absent["a"]]) == [wrong]


def test_best_is_the_fastest_with_its_speed_up_over_the_default():
    (found,) = best([row("a"), row("b", "tiled", 25.0), row("c", "packed", 50.0)])
    assert (found["case"], found["speedup"], found["median_us"], found["gflops"]) == ("b", 4, 0.025, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"verification": word} for word in ("different", "mistrusted", "not compared", "not verified")),
        *({"status": word} for word in ("failed", "suspect", "not measured")),
        {"median_ns": None},
    ],
)
def test_best_is_never_one_that_was_not_found_right(wrong):
    (found,) = best([row("a"), row("b", "tiled", **{"median_ns": 1.0, **wrong})])
    assert found["case"] == "a"
    assert best([row("b", **wrong)]) == []


def test_best_looks_at_the_newest_row_of_a_case_only():
    (found,) = best([row("a", median_ns=1.0), row("b", "tiled", 50.0), row("a", median_ns=100.0)])
    assert (found["case"], found["speedup"]) == ("b", 2)


def test_each_row_is_compared_with_the_fastest_provider():
    rows = [
        row("a"),
        row("b", "tiled", 50.0),
        row("c", None, 25.0, provider="numpy"),
        row("d", None, 1.0, provider="x"),
    ]
    rows[3]["verification"] = "different"
    assert [found["percent_of_best_provider"] for found in compared(rows)] == [25, 50, 100, None]


def test_fastest_provider_is_exactly_100_percent():
    ns = 847433.8895034958
    assert 100 * ns / ns < 100
    fastest, _ = compared([row("a", median_ns=ns), row("b", None, 1e9, provider="numpy")])
    assert fastest["percent_of_best_provider"] == 100


def test_one_provider_alone_is_compared_with_none():
    assert [found["percent_of_best_provider"] for found in compared([row("a"), row("b", "tiled", 50.0)])] == [None] * 2


def test_best_shows_each_provider():
    found = best([row("a"), row("b", "tiled", 50.0), row("c", None, 25.0, provider="numpy")])
    assert [(r["case"], r["speedup"], r["percent_of_best_provider"]) for r in found] == [("b", 2, 50), ("c", None, 100)]


def test_default_that_was_not_right_gives_no_speed_up():
    (found,) = best([row("a", verification="different"), row("b", "tiled")])
    assert found["speedup"] is None


def test_best_has_columns_for_what_tells_its_rows_apart_and_no_others():
    assert not {"protocol", "host", "flags"} & set(columns(best([row("a")])))
    assert "protocol" in columns(best([row("a"), row("a", protocol="fast-1")]))
    assert "host" in columns(best([row("a"), row("b", host="other")]))
    assert "flags" in columns(best([row("a", flags="--iree-opt-level=O2")]))


def test_what_best_compares_stands_together():
    rows = [row(f"{shape}{provider}{cache}", shape=shape, provider=provider, cache=cache)
            for cache in ("hot", "cold") for provider in ("iree", "numpy") for shape in "st"]  # fmt: skip
    rows.append(row("other", shape="s", target="vmvx"))
    shown = [(r["shape"], r["target"], r.get("cache"), r.get("provider")) for r in best(rows)]
    of_each = [("hot", "iree"), ("hot", "numpy"), ("cold", "iree"), ("cold", "numpy")]
    assert shown == [
        *(("s", "llvm-cpu", *words) for words in of_each),
        ("s", "vmvx", None, None),
        *(("t", "llvm-cpu", *words) for words in of_each),
    ]


@pytest.mark.parametrize("field", ["shape", "target", "threads", "protocol", "cache", "host"])
def test_best_compares_only_what_is_alike(field):
    assert len(best([row("a"), row("b", "tiled", **{field: 2})])) == 2


def test_summary_counts_what_was_made_and_gives_each_reason_once():
    rows = [row("a"), *(row(f"f{i}", status="failed", reason="no") for i in range(3)), row("n", status="noisy")]
    rows.append(row("s", status="suspect", reason="above the ceiling"))
    lines = summary.summary(
        {"compile": 2, "profile": 0}, {"a"}, rows, [Skip("x", "cannot", ""), Skip("y", "cannot", "")], ["hm"]
    )
    assert lines.splitlines() == [
        "note: hm",
        "failed: no (3 cases, such as f0)",
        "logs and inputs of a failed case are in build/NAME/; retry=yes tries recorded failures again",
        "suspect: s: above the ceiling",
        "remeasure=yes measures suspect cases again, and the ceiling with them",
        "noisy: n; remeasure=noisy takes them again, protocol=thorough takes longer",
        "skipped: cannot (2 cases, such as x)",
        "6 cases: 2 compiled; 2 reused, 3 failed, 2 skipped; ",
    ]


def test_half_of_an_interval_is_shown_up_to_a_hundred_percent():
    def shown(low, high):
        return summary.half(row("a", median_ns=100.0, ci_low_ns=low, ci_high_ns=high), "ci_low_ns", "ci_high_ns")

    assert [shown(98.0, 103.0), shown(10.0, 1e4), shown(None, None)] == ["2.5%", ">100%", ""]


def test_noisy_rows_are_explained_by_the_conditions_where_these_explain_them():
    disturbed = {"steal_ticks": 125, "load_1m": 4.21, "threads": 1, "session_factor": 1.12, "governor": "powersave"}
    disturbed["session_factor_uncertainty"] = 0.08
    told = noise.conditions([row("n", **disturbed), row("m", steal_ticks=3)])
    assert told == (
        "while they were measured: the hypervisor took 1.25 s; "
        "the anchors, whose code never changes, are uncertain by ±8% too: the machine's speed changed; "
        "load 4.2 (this run's own compiles count for a minute); "
        "the anchors took 12% longer than in this machine's first session; "
        "the CPU's governor is powersave, which changes the frequency"
    )
    calm = {"steal_ticks": 9, "load_1m": 1.4, "threads": 1, "session_factor": 0.99, "governor": "performance"}
    calm["session_factor_uncertainty"] = 0.03
    assert noise.conditions([row("n", **calm)]) is None


def test_conditions_of_another_run_explain_nothing_here():
    rows = [row("n", status="noisy", steal_ticks=125)]
    told = [summary.summary({"profile": 1}, fresh, rows, [], []).count("while they were") for fresh in ({"n"}, set())]
    assert told == [1, 0]


def test_summary_says_nothing_of_measurements_that_were_not_asked_for():
    rows = [row("n", status="noisy"), row("s", status="suspect", reason="above the ceiling")]
    assert summary.summary({"emit": 2}, {"n", "s"}, rows, [], [], asked={"n": "emit", "s": "emit"}).splitlines() == [
        "2 cases: 2 emitted; 0 reused, 0 failed, 0 skipped; "
    ]


def test_summary_names_what_was_only_run_wherever_a_run_stopped_after_that():
    said = {"operation": "module", "verification": "not compared", "status": "not measured", "median_ns": None}
    for stage, told in (("emit", 0), ("compile", 0), ("verify", 1), ("profile", 1)):
        for rows in ([row("a", **said)], [row("a", **said), row("b", **said | {"status": "no device"})]):
            text = summary.summary({}, set(), rows, [], [], asked=dict.fromkeys("ab", stage))
            assert text.count("only run, compared with nothing: a; say expected") == told
    assert "only run" not in summary.summary({}, set(), [row("a", **said)], [], [], broken={"a"})


def test_table_has_a_line_for_each_case_and_its_state():
    shown = summary.table([row("a"), row("b", status="failed", median_ns=None), row("c", status="noisy")], {"a"})
    lines = [line.split() for line in shown.splitlines()]
    assert [line[0] for line in lines] == ["case", "a", "b", "c"]
    assert [line[-1] for line in lines[1:]] == ["now", "failed", "reused"]


def test_long_table_shows_failures_and_the_fastest_of_each_shape():
    many = [row(f"c{i}", median_ns=100.0 + 10 * i, shape=f"s{i % 2}") for i in range(60)]
    many.append(row("wrong", status="failed", median_ns=None))
    shown = [line.split()[0] for line in summary.table(many, set()).splitlines()]
    assert shown == ["case", "wrong", "c0", "c1", "62" if len(many) == 62 else "61"]


def test_fastest_of_a_long_table_is_right():
    """verify=warn measures wrong results too: they are failures with a time."""
    many = [row(f"c{i}", median_ns=100.0 + i) for i in range(60)]
    many.append(row("wrong", status="failed", verification="different", median_ns=1.0))
    assert [line.split()[0] for line in summary.table(many, set()).splitlines()][1:3] == ["wrong", "c0"]


@pytest.mark.parametrize("doubt", [{"status": "suspect"}, *({"verification": word} for word in UNSURE)])
def test_fastest_of_a_long_table_is_verified_and_believed(doubt):
    many = [row(f"c{i}", median_ns=100.0 + 10 * i) for i in range(60)]
    many.append(row("doubtful", median_ns=1.0, **doubt))
    assert [line.split()[0] for line in summary.table(many, set()).splitlines()][1:2] == ["c0"]


def test_two_programs_of_one_name_are_not_compared():
    """A module's shape is named after its file: neither its content nor its inputs are in the name."""
    for differing in ("program_digest", "data_digest"):
        rows = [row("a", **{differing: "old"}), row("b", "tiled", 1.0, **{differing: "new"})]
        found = best(rows)
        assert [(r["case"], r["speedup"]) for r in found] == [("b", None), ("a", 1)]
        assert differing in columns(found)
        what = "another program" if differing == "program_digest" else "other inputs"
        assert notes(found, rows) == [
            f"not compared: one is of {what} (1 shape, such as s)",
            f"speedup is empty: the default is of {what} (1 row, such as b)",
        ]


def test_two_toolchains_are_not_compared():
    old, new = {"toolchain_version": "3.12", "rounds": "1"}, {"toolchain_version": "3.13", "rounds": "2"}
    rows = [row("a", **old), row("b", "tiled", 80.0, **old), row("a", median_ns=120.0, **new)]
    found = best(rows)
    assert [(r["case"], r["toolchain_version"], r["speedup"]) for r in found] == [("b", "3.12", None), ("a", "3.13", 1)]
    assert "toolchain_version" in columns(found)
    assert "speedup is empty: the default is of another toolchain (1 row, such as b)" in notes(found, rows)


def test_hosts_hide_and_beat_no_rows_of_each_other():
    rows = [row(case, tuning, ns, host=host) for case, tuning, ns, host in
            (("d", "default", 100.0, "A"), ("t", "tiled", 80.0, "A"), ("d", "default", 50.0, "B"), ("t", "tiled", 60.0, "B"))]  # fmt: skip
    found = best(rows)
    assert [(r["host"], r["case"], r["speedup"]) for r in found] == [("A", "t", 1.25), ("B", "d", 1)]
    assert notes(found, rows) == []


def test_two_files_of_one_name_do_not_hide_each_other():
    assert len(newest([row(file="/a/k.mlir"), row(file="/b/k.mlir")])) == 2


def test_no_configuration_wins_while_intervals_overlap():
    rows = [row("a", median_ns=101.0), row("b", "tiled", 100.0), row("c", "packed", 150.0)]
    found = best(rows)
    assert [(r["case"], r["speedup"]) for r in found] == [("b", 1.01), ("a", 1)]
    assert notes(found, rows) == ["tied: their intervals overlap (1 shape, such as s)"]
    none = {"ci_low_ns": None, "ci_high_ns": None}
    assert len(best([row("a", **none), row("b", "tiled", 1.0, **none)])) == 2


def test_ratios_are_of_the_same_rounds_only():
    rows = [row("a"), row("b", "tiled", 50.0, rounds="run/2"), row("n", None, 25.0, provider="numpy")]
    found = best(rows)
    assert [(r["case"], r["speedup"], r["percent_of_best_provider"]) for r in found] == [
        ("b", None, None), ("a", 1, 25), ("n", None, 100)
    ]  # fmt: skip
    assert notes(found, rows) == [
        "not compared: one is of other rounds (1 shape, such as s)",
        "speedup is empty: the default is of other rounds (1 row, such as b)",
        "percent_of_best_provider is empty: other providers are of other rounds (1 row, such as b)",
    ]
    unknown = [row("a", rounds=None), row("n", None, 25.0, provider="numpy", rounds=None)]
    assert [r["percent_of_best_provider"] for r in compared(unknown)] == [None, None]


def test_anchored_times_say_which_of_two_sessions_rows_is_faster():
    def anchored(low_ns, high_ns, reference):
        return {"anchored_low_ns": low_ns, "anchored_high_ns": high_ns, "anchors_reference_ns": reference}

    slow, fast = anchored(90.0, 110.0, [1.0, 2.0]), anchored(45.0, 55.0, [1.0, 2.0])
    found = best([row("a", **slow), row("b", "tiled", 50.0, rounds="run/2", **fast)])
    assert [(r["case"], r["speedup"]) for r in found] == [("b", None)]
    apart = fast | {"anchors_reference_ns": [1.0, 3.0]}  # of another machine's first session
    assert len(best([row("a", **slow), row("b", "tiled", 50.0, rounds="run/2", **apart)])) == 2


def test_two_cases_of_one_measurement_are_one_line_of_best():
    assert len(best([row("a-2t", measurement_key="k"), row("a-all", measurement_key="k")])) == 1


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


def test_best_has_modules_whose_flops_nobody_knows():
    found = best([row("m", flops_per_s=None, median_ns=2000.0, status="measured")])
    assert [(r["case"], r["gflops"], r["median_us"]) for r in found] == [("m", None, 2.0)]


def test_summary_of_one_failure_names_its_directory_and_what_was_tried_now():
    rows = [row("a", status="failed", reason="no")]
    *_, where, tried = summary.summary({"compile": 0}, set(), rows, [], [], 1).splitlines()
    assert "are in build/a/; " in where
    assert tried == "1 case: 1 tried; 0 reused, 1 failed, 0 skipped; "


def test_a_stage_that_an_exception_ended_counts_as_failed():
    rows = [row("a", status="not measured"), row("b", status="failed", reason="wrong")]
    *_, said, _, counts = summary.summary({"compile": 2}, {"a", "b"}, rows, [], [], 1, {"a", "b"}).splitlines()
    assert said == "failed: an exception in dispatchflow, shown above (a)"
    assert counts == "2 cases: 2 compiled; 0 reused, 2 failed, 0 skipped; "
