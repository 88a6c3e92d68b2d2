"""A run prints a table of its cases, the reasons for failures, and a last line that counts cases."""

import pytest
from support.report_rows import row

from dispatchflow.planning.plan import Skip
from dispatchflow.reports import noise, summary

UNSURE = ("mistrusted", "not compared", "not verified")


def test_summary_counts_what_was_made_and_gives_each_reason_once():
    rows = [row("a"), *(row(f"f{i}", status="failed", reason="no") for i in range(3)), row("n", status="noisy")]
    rows.append(row("s", status="suspect", reason="above the ceiling"))
    lines = summary.summary(
        {"compile": 2, "profile": 0}, {"a"}, rows, [Skip("x", "cannot", ""), Skip("y", "cannot", "")], ["hm"]
    )
    assert lines.splitlines() == [
        "note: hm",
        "failed in an earlier run: no (3 cases, such as f0)",
        "logs and inputs of a failed case are in build/CASE/; retry=yes runs failed cases again even if nothing has changed",
        "suspect: s: above the ceiling",
        "remeasure=yes measures suspect cases and their ceilings again",
        "noisy (±here above 5%, or many blocks waited for a CPU): n; remeasure=noisy measures noisy cases again; protocol=thorough measures all selected cases for longer",
        "skipped: cannot (2 cases, such as x)",
        "6 cases (and 2 skipped): 2 reused, 3 failed in an earlier run; 2 compiled in ",
    ]


def test_a_case_that_failed_after_a_stage_of_this_run_did_not_fail_in_an_earlier_run():
    rows = [row("f", status="failed", reason="no public function 'mian'; the file has main")]
    told = [summary.summary({"emit": len(fresh)}, fresh, rows, [], []).splitlines() for fresh in ({"f"}, set())]
    assert [(lines[0].partition(":")[0], lines[-1]) for lines in told] == [
        ("failed", "1 case: 1 failed; 1 emitted in "),
        ("failed in an earlier run", "1 case: nothing to do (1 failed in an earlier run) in "),
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
        "during these measurements: the hypervisor took 1.25 s of CPU time; "
        "the machine's speed changed (the times of fixed kernels, the anchors, varied by ±8%); "
        "load average 4.2 when the measurement began (this run's own compiles add to it); "
        "the machine was slower than in its first run (the anchors took 12% longer); "
        "the CPU's governor is powersave, which changes the frequency"
    )
    calm = {"steal_ticks": 9, "load_1m": 1.4, "threads": 1, "session_factor": 0.99, "governor": "performance"}
    calm["session_factor_uncertainty"] = 0.03
    assert noise.conditions([row("n", **calm)]) is None


def test_conditions_of_another_run_explain_nothing_here():
    rows = [row("n", status="noisy", steal_ticks=125)]
    told = [
        summary.summary({"profile": 1}, fresh, rows, [], []).count("during these measurements")
        for fresh in ({"n"}, set())
    ]
    assert told == [1, 0]


def test_the_summary_does_not_mention_measurements_that_were_not_requested():
    rows = [row("n", status="noisy"), row("s", status="suspect", reason="above the ceiling")]
    assert summary.summary({"emit": 2}, {"n", "s"}, rows, [], [], asked={"n": "emit", "s": "emit"}).splitlines() == [
        "2 cases: 2 emitted in "
    ]


def test_the_summary_names_cases_that_ran_without_a_comparison():
    said = {"operation": "module", "verification": "not compared", "status": "not measured", "median_ns": None}
    for stage, told in (("emit", 0), ("compile", 0), ("verify", 1), ("profile", 1)):
        for rows in ([row("a", **said)], [row("a", **said), row("b", **said | {"status": "no device"})]):
            text = summary.summary({}, set(), rows, [], [], asked=dict.fromkeys("ab", stage))
            assert text.count("not compared, because there is nothing to compare with: a; give expected=") == told
    assert "nothing to compare" not in summary.summary({}, set(), [row("a", **said)], [], [], broken={"a"})


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
    # With `verify=warn`, cases with wrong results are measured too, and are failures with a time.
    many = [row(f"c{i}", median_ns=100.0 + i) for i in range(60)]
    many.append(row("wrong", status="failed", verification="different", median_ns=1.0))
    assert [line.split()[0] for line in summary.table(many, set()).splitlines()][1:3] == ["wrong", "c0"]


@pytest.mark.parametrize("doubt", [{"status": "suspect"}, *({"verification": word} for word in UNSURE)])
def test_fastest_of_a_long_table_is_verified_and_believed(doubt):
    many = [row(f"c{i}", median_ns=100.0 + 10 * i) for i in range(60)]
    many.append(row("doubtful", median_ns=1.0, **doubt))
    assert [line.split()[0] for line in summary.table(many, set()).splitlines()][1:2] == ["c0"]


def test_summary_of_one_failure_names_its_directory_and_counts_it():
    rows = [row("a", status="failed", reason="no")]
    *_, where, counts = summary.summary({"compile": 0}, set(), rows, [], [], 1).splitlines()
    assert "are in build/a/; " in where
    assert counts == "1 case: 1 failed in "


def test_a_stage_that_an_exception_ended_counts_as_failed():
    rows = [row("a", status="not measured"), row("b", status="failed", reason="wrong")]
    *_, said, _, counts = summary.summary({"compile": 2}, {"a", "b"}, rows, [], [], 1, {"a", "b"}).splitlines()
    assert said == "failed: an exception in dispatchflow, shown above (a)"
    assert counts == "2 cases: 2 failed; 2 compiled in "


def test_a_measurement_that_failed_again_is_not_called_measured_now():
    rows = [row("a"), row("b")]
    shown = summary.table(rows, {"b"}, {"a"}).splitlines()
    assert "reused; measuring it again failed" in shown[1] and shown[2].endswith("measured now")
    failure = {"a": "benchmark failed: took longer than block_limit"}
    lines = summary.summary({"profile": 1}, {"b"}, rows, [], [], stale=failure).splitlines()
    assert f"measuring again failed, the earlier measurement stands: {failure['a']} (a)" in lines
    assert lines[-1] == "2 cases: 1 failed; 1 measured in "


def test_a_mistrusted_operation_is_reported_with_its_reason():
    # `verify` prints no table, so the summary must have the word `mistrusted`.
    doubt = {"verification": "mistrusted", "reason": "no wrong result could be told", "operation": "pooling"}
    rows = [row("a", **doubt), row("b")]
    told = "mistrusted: a: no wrong result could be told"
    assert told in summary.summary({"verify": 1}, {"a"}, rows, [], [], asked={"a": "verify"}).splitlines()
    assert told not in summary.summary({"emit": 1}, {"a"}, rows, [], [], asked={"a": "emit"}).splitlines()


def test_failures_of_one_cause_are_one_line_and_hidden_reasons_are_counted():
    failed = (
        'compile failed: failed to legalize %{} = "torch.aten.sum.dim_IntList"(%{}, %2) : (!torch.vtensor<[{}],f32>)'
    )
    sums = [failed.format(n, n + 1, n) for n in range(5)]
    others = [f"compile failed: reason {chr(97 + n)}" for n in range(25)]
    rows = [row(f"c{n}", status="failed", reason=reason) for n, reason in enumerate((*sums, *others))]
    lines = [line for line in summary.summary({}, set(), rows, [], [], 9).splitlines() if line.startswith("failed: ")]
    assert lines[0] == f"failed: {sums[0]} (5 cases, such as c0)"
    left = 25 - (len(lines) - 2)
    assert lines[-1] == f"failed: {left} other reasons ({left} cases); {summary.ALL}"


def test_hidden_reasons_are_shown_by_a_command_that_knows_them():
    # Without `stage=verify`, `doit report` shows only the rows of measured cases.
    reasons = {f"c{n}": f"reason {chr(97 + n)}" for n in range(25)}
    failed = [row(name, status="failed", reason=reason) for name, reason in reasons.items()]
    known = [row(name, status="known failure", known_failure=reason) for name, reason in reasons.items()]
    text = summary.summary({}, set(), [*failed, *known], [], [], 9, fixed=reasons, stale=reasons)
    shown = {
        line.partition(":")[0]: line.partition("; ")[2] for line in text.splitlines() if " other reasons (" in line
    }
    verdicts = "`doit report stage=verify` with the same words shows all"
    assert shown == {
        "failed": verdicts,
        "known failure": verdicts,
        "no longer fails": "`doit known` with the same words shows all",
        "measuring again failed, the earlier measurement stands": "the lines above show all",
    }
