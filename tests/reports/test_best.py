"""`doit best` takes the newest row of each case, and shows the fastest among comparable rows."""

import numpy as np
import pytest
from support.report_rows import row

from dispatchflow.reports.best import best, columns, newest, notes
from dispatchflow.reports.comparability import unbeaten
from dispatchflow.reports.providers import compared
from dispatchflow.timing.statistics import summary


def test_newest_row_of_each_case_stands():
    rows = [row("a", median_ns=1), row("b", median_ns=2), row("a", median_ns=3)]
    assert [(r["case"], r["median_ns"]) for r in newest(rows)] == [("a", 3), ("b", 2)]


def test_run_without_a_device_hides_nothing_that_was_found_of_the_same_code():
    a, b = row(code_digest="a"), row(code_digest="b", median_ns=50.0)
    absent = {digest: row(code_digest=digest, status="no device", median_ns=None) for digest in "ab"}
    assert newest([a, absent["a"]]) == [a]
    assert newest([a, absent["b"]]) == [absent["b"]]  # other code, whose speed is unknown
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


def test_best_shows_optional_columns_only_if_they_distinguish_rows_or_are_set():
    assert not {"protocol", "host", "flags"} & set(columns(best([row("a")])))
    assert "protocol" in columns(best([row("a"), row("a", protocol="fast-1")]))
    assert "host" in columns(best([row("a"), row("b", host="other")]))
    assert "flags" in columns(best([row("a", flags="--iree-opt-level=O2")]))


def test_rows_that_best_compares_are_adjacent():
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
def test_best_does_not_compare_rows_that_differ_in_a_condition(field):
    assert len(best([row("a"), row("b", "tiled", **{field: 2})])) == 2


def test_two_programs_of_one_name_are_not_compared():
    # A module's shape is its file's name, which shows neither the content nor the inputs.
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
    assert notes(found, rows) == ["tied: none is certainly faster (1 shape, such as s)"]
    none = {"ci_low_ns": None, "ci_high_ns": None}
    assert len(best([row("a", **none), row("b", "tiled", 1.0, **none)])) == 2


def measured(generator, count, blocks, noise=0.01, slower=()):
    """Yield `count` rows with random block times around 1000 ns.

    `noise` is the standard deviation of a time's logarithm. The first rows are slower by the fractions in
    `slower`."""
    logs = noise * generator.standard_normal((count, blocks))
    logs[: len(slower)] += np.log1p(slower)[:, None]
    for number, blocks_ns in enumerate((1000 * np.exp(logs)).tolist()):
        found = summary(blocks_ns)
        times = {"median_ns": found.median_ns, "ci_low_ns": found.ci_low_ns, "ci_high_ns": found.ci_high_ns}
        yield row(str(number), f"t{number}", blocks_ns=blocks_ns, **times)


@pytest.mark.parametrize(("count", "runs"), [(2, 300), (50, 100), (200, 40)])
@pytest.mark.parametrize("blocks", [9, 15, 42])
def test_equally_fast_rows_are_all_shown_however_many_they_are(count, runs, blocks):
    # Intervals of 95 % would drop one of 50 rows in two of three runs, and one of 200 rows in all runs.
    generator = np.random.default_rng(count + blocks)
    dropped = sum(len(unbeaten(measured(generator, count, blocks))) < count for _ in range(runs))
    assert dropped <= 0.05 * runs


@pytest.mark.parametrize("blocks", [9, 15, 42])
def test_row_that_is_a_tenth_slower_is_dropped_among_many(blocks):
    generator = np.random.default_rng(blocks)
    dropped = [{"0"} - {found["case"] for found in unbeaten(measured(generator, 50, blocks, slower=[0.1]))}
               for _ in range(40)]  # fmt: skip
    assert sum(map(bool, dropped)) >= 38


def test_a_row_that_waited_for_a_cpu_is_not_certainly_slower_nor_faster():
    waited = row("b", "tiled", 1100.0, status="noisy", disturbed_blocks=15)
    assert {found["case"] for found in best([row("a"), waited])} == {"a", "b"}
    assert {found["case"] for found in best([row("a"), waited | {"disturbed_blocks": 3}])} == {"a"}


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


def test_intervals_for_another_session_decide_which_of_two_sessions_rows_is_faster():
    def later(low_ns, high_ns):
        return {"later_low_ns": low_ns, "later_high_ns": high_ns}

    slow = row("a", **later(90.0, 110.0))
    assert [r["case"] for r in best([slow, row("b", "tiled", 50.0, rounds="run/2", **later(45.0, 55.0))])] == ["b"]
    assert len(best([slow, row("b", "tiled", 80.0, rounds="run/2", **later(70.0, 91.0))])) == 2


def test_two_cases_of_one_measurement_are_one_line_of_best():
    assert len(best([row("a-2t", measurement_key="k"), row("a-all", measurement_key="k")])) == 1


def test_best_has_modules_whose_flops_nobody_knows():
    found = best([row("m", flops_per_s=None, median_ns=2000.0, status="measured")])
    assert [(r["case"], r["gflops"], r["median_us"]) for r in found] == [("m", None, 2.0)]
