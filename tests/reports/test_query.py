"""Queries of rows and specs report why there is nothing to show, and refuse unknown words."""

from __future__ import annotations

import csv
import errno
import io
from pathlib import Path

import pytest

from dispatchflow.cli.answer import answer
from dispatchflow.cli.command_line import read
from dispatchflow.engine.actions import VERIFICATION
from dispatchflow.errors import NothingMatched, SpecError, StoreError
from dispatchflow.operations import OPERATIONS
from dispatchflow.results.parquet import write_part

ROW = {
    "case": "matmul_8x8x8", "operation": "matmul", "shape": "8x8x8", "target": "llvm-cpu", "threads": 1,
    "protocol": "std-1", "host": "here", "tuning": "default", "status": "measured", "verification": "equal",
    "median_ns": 9.0, "flops_per_s": 1e9, "tags": ["small"], "recorded_at": 1.0, "rounds": "run/1",
    "verification_version": VERIFICATION,
}  # fmt: skip


@pytest.fixture
def said(tmp_path, capsys, monkeypatch):
    """Return `say(words, *rows)`, which returns what `doit WORDS` prints if the results contain `rows`."""
    monkeypatch.setattr("doit.doit_cmd._CMDLINE_VARS", {})
    monkeypatch.delenv("DISPATCHFLOW_STORE", raising=False)

    def say(words: str, *rows: dict[str, object]) -> str:
        (tmp_path / ".dispatchflow/results").mkdir(parents=True, exist_ok=True)
        write_part(tmp_path / ".dispatchflow/results/a.parquet", [ROW | row for row in rows])
        assert answer(tmp_path, {}, read(words.split()), None) == 0
        return str(capsys.readouterr().out)

    return say


@pytest.mark.parametrize("command", ["report", "best"])
def test_columns_of_csv_are_there_once(said, command):
    header, _ = csv.reader(io.StringIO(said(f"{command} format=csv", {})))
    assert len(header) == len(set(header))


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.EACCES, "Give yourself permission to read it."), (errno.EIO, "Remove that part")]
)
def test_a_part_that_cannot_be_read_is_reported_with_what_to_do(number, hint, said, tmp_path, monkeypatch):
    def read_bytes(path):
        raise OSError(number, "refused", path)

    said("report", {})
    results = tmp_path / ".dispatchflow/results"
    (results / "a.parquet").rename(results / "20260101T000000Z-1a.parquet")
    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    with pytest.raises(StoreError, match="a results part cannot be read") as raised:
        answer(tmp_path, {}, read(["report"]), None)
    assert hint in str(raised.value)


def test_rows_of_an_older_verification_are_left_out_of_best_and_marked_in_a_report(said):
    old = {"case": "old", "median_ns": 1.0, "verification_version": VERIFICATION - 1}
    unknown = {"case": "unknown", "median_ns": 1.0, "verification_version": None}
    again = "repeating the run that measured them verifies them again, and measures only changed code"

    fastest = said("best", {}, old)
    assert "1.0" not in fastest.splitlines()[1]
    assert fastest.endswith(f"left out, passed by an older verification: old; {again}\n")
    shown = said("report", {}, old, unknown)
    assert [line.split()[0] for line in shown.splitlines() if "equal (outdated)" in line] == ["old", "unknown"]
    assert f"(outdated), passed by an older verification: 2 cases, such as old; {again}" in shown
    assert "outdated" not in said("report format=csv", {}, old)
    assert "outdated" not in said("report", {})
    with pytest.raises(NothingMatched, match="an older verification passed it"):
        said("best", old)


@pytest.mark.parametrize("style", ["text", "csv", "markdown", "jsonl"])
def test_a_tag_cannot_steer_the_terminal(said, style):
    text = said(f"report columns=case,tags format={style}", {"tags": ["\x1b]0;title\x07"]})
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "0;title" in text


def test_a_pattern_selects_rows_by_their_tags(said):
    rows = [{"case": "bert", "tags": ["net:bert"]}, {"case": "small", "tags": ["small"]}]
    assert said("report format=csv columns=case tags=net:*", *rows).split() == ["case", "bert"]
    with pytest.raises(NothingMatched, match="no rows match"):
        said("report tags=layer:*", *rows)


@pytest.mark.parametrize("style", ["text", "jsonl"])
def test_best_without_a_right_row_reports_the_states_of_the_rows(said, style):
    suspect = {"status": "suspect", "reason": "above\nthe ceiling"}
    wrong = {"case": "wrong", "status": "failed", "verification": "different"}
    with pytest.raises(NothingMatched) as caught:
        said(f"best format={style}", suspect, wrong, {**wrong, "case": "too"})
    assert caught.value.facts["rows"] == "2 failed (different), 1 suspect (equal)"
    assert caught.value.facts["reason"] == "above the ceiling"


def test_best_without_a_verified_row_reports_that_as_the_reason(said):
    with pytest.raises(NothingMatched) as caught:
        said("best", {"status": "noisy", "verification": "not verified", "reason": "the median's interval is ±42.6%"})
    assert caught.value.facts["reason"] == "not verified"
    assert caught.value.hint.endswith("A run without verify=off verifies them and measures nothing again.")


@pytest.mark.parametrize("chosen", ["*numpy*", "tags=small"])
@pytest.mark.parametrize("command", ["report", "best"])
def test_selected_rows_are_compared_with_all_rows(said, command, chosen):
    faster = {"case": "tiled", "tuning": "tiled", "median_ns": 3.0, "tags": []}
    rows = [faster, {"case": "numpy", "provider": "numpy"}]
    assert said(f"{command} {chosen} columns=case,percent_of_best_provider format=csv", *rows).split()[1:] == [
        f"numpy,{100 * (3 / 9)}"
    ]


def test_the_speedup_of_selected_rows_uses_a_default_that_is_not_selected(said):
    rows = [
        {},
        {"case": "tiled", "tuning": "tiled", "median_ns": 3.0},
        {"case": "fast", "tuning": "x", "median_ns": 1.0},
    ]
    assert said("best *tiled* columns=case,speedup format=csv", *rows).split()[1:] == ["tiled,3.0"]


@pytest.mark.parametrize(("style", "told"), [("text", 3), ("markdown", 3), ("csv", 0), ("jsonl", 0)])
def test_reasons_for_empty_cells_stand_below_the_table_and_not_in_data(said, style, told):
    rows = [{}, {"case": "tiled", "tuning": "tiled", "median_ns": 3.0, "rounds": "run/2"}]
    words = ("not compared: one is of other rounds", "speedup is empty", "remeasure=yes measures")
    shown = said(f"best format={style}", *rows)
    assert sum(word in shown for word in words) == told


def test_rows_that_newer_ones_replaced_are_not_chosen_by_their_tags(said):
    with pytest.raises(NothingMatched, match="no rows match"):
        said("report tags=small", {}, {"tags": []})
    assert len(said("report tags=small history=yes format=csv", {}, {"tags": []}).splitlines()) == 2


def test_history_shows_anchored_medians_beside_the_others(said):
    heads = [said(f"report {words}", {}, {}).splitlines()[0].split() for words in ("history=yes", "history=no")]
    assert heads[0][4:9] == ["median_ns", "anchored_median_ns", "anchored_low_ns", "anchored_high_ns", "session_factor"]
    assert "anchored_median_ns" not in heads[1]


def test_the_variable_history_is_accepted_by_report_only(said):
    with pytest.raises(SpecError, match="'history=' means nothing to this command"):
        said("best history=yes", {})


def test_a_tag_that_no_row_has_is_an_error_that_lists_the_existing_tags(said):
    with pytest.raises(NothingMatched, match="no rows match") as caught:
        said("report tags=smal", {}, {"case": "another", "tags": ["other"]})
    assert (caught.value.facts["given"], caught.value.facts["tags"]) == ("tags=smal", "other, small")
    assert caught.value.hint == "Did you mean 'small'?"


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("tags=small,large", "tags=large"),
        ("*8x8x8 *9x9x9 tags=small", "*9x9x9"),
        ("matmul_8x8x8 matmul_8x8x9 tags=smal", "matmul_8x8x9 tags=smal"),
        ("*other tags=small", None),
    ],
)
@pytest.mark.parametrize("command", ["report", "best"])
def test_each_pattern_and_tag_must_match_a_row(said, command, words, given):
    with pytest.raises(NothingMatched, match="no rows match") as caught:
        said(f"{command} {words}", {}, {"case": "other", "tags": []})
    assert caught.value.facts.get("given") == given


@pytest.mark.parametrize("words", ["operation=matmul,softmax", "tags=small,large"])
def test_each_operation_and_tag_must_have_a_sweep(said, tmp_path: Path, words):
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/a.toml").write_text('[[sweep]]\noperation = "matmul"\nshape = "tiny"\ntags = "small"')
    with pytest.raises(NothingMatched) as caught:
        said(f"list --all emit {words}")
    assert caught.value.facts["given"] == words.partition(",")[2]


@pytest.mark.parametrize(
    ("spec", "says", "facts"),
    [
        ("# none yet", "no sweep of the specs has this operation", {"given": "conv2d, norm", "operations": "none"}),
        (
            '[[sweep]]\noperation = ["matmul", "softmax"]\nshape = "tiny"',
            "no sweep of the specs has this operation",
            {"given": "conv2d, norm", "operations": "matmul, softmax"},
        ),
    ],
)
def test_an_operation_without_a_sweep_in_the_specs_is_reported(said, tmp_path: Path, spec, says, facts):
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/a.toml").write_text(spec)
    with pytest.raises(NothingMatched) as caught:
        said("operation=conv2d,norm plan")
    assert (caught.value.problem, caught.value.facts) == (says, facts)


def test_an_operation_s_word_that_no_sweep_knows_is_refused(said, tmp_path: Path):
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/a.toml").write_text('[[sweep]]\noperation = "matmul"\nshape = "tiny"')
    with pytest.raises(SpecError, match="no sweep here has this word") as caught:
        said("kind=max plan")
    having = [name for name, operation in OPERATIONS.items() if "kind" in operation.options]
    assert caught.value.facts == {"given": "kind", "have it": ", ".join(having)}


@pytest.mark.parametrize(
    "words",
    [
        *(
            "variables nosuch=1",
            "variables m=8",
            "devices tags=a",
            "toolchains tags=a",
            "store tags=a",
            "store check tags=a",
        ),
        *(
            "store clean tags=a",
            "store clean keep=30 threads=2",
            "store clean m=8",
            "store clean iree=3.12.0",
            "report m=8",
        ),
    ],
)
def test_variables_that_a_command_has_no_use_for_are_refused(said, words):
    with pytest.raises(SpecError, match=r"unknown variable|means nothing to this command"):
        said(words)


@pytest.mark.parametrize("words", ["verify remeasure=yes", "plan emit compile:* remeasure=0"])
def test_remeasure_is_refused_where_nothing_is_measured(said, words):
    with pytest.raises(SpecError, match="no case is selected for profile"):
        said(f"{words} m=9 n=9 k=9 threads=1")


@pytest.mark.parametrize("option", ["-n -1", "-n 0", "-n0", "-n 1025", "--process=-3", "--process two", "-n"])
@pytest.mark.parametrize("command", ["", "plan "])
def test_fewer_jobs_than_one_are_refused(said, command, option):
    with pytest.raises(SpecError, match="-n cannot be ") as caught:
        said(f"{command}m=9 n=9 k=9 threads=1 {option}")
    assert (caught.value.exit_code, caught.value.facts) == (2, {"allowed": "1 … 1024"})


def test_column_that_is_not_there_gets_the_nearest_or_else_all(said):
    with pytest.raises(SpecError, match="unknown column 'median'") as caught:
        said("best columns=case,median", {})
    assert (caught.value.facts, caught.value.hint) == ({}, "Did you mean 'median_us'?")
    with pytest.raises(SpecError) as caught:
        said("report sort=nosuch", {})
    assert "percent_of_peak" in str(caught.value.facts["known"])


def test_a_missing_output_folder_is_reported_with_the_command_that_creates_it(said, tmp_path):
    with pytest.raises(SpecError) as caught:
        said(f"report out={tmp_path}/no/x", {})
    assert caught.value.facts == {"found": f"no folder '{tmp_path}/no'"}
    assert caught.value.hint == f"Create it: mkdir -p {tmp_path}/no."
    with pytest.raises(SpecError) as caught:
        said(f"report out={tmp_path}", {})
    assert caught.value.facts == {"found": "Is a directory"}


@pytest.mark.parametrize("form", ["help {}", "{} -h", "m=1 {} --help"])
@pytest.mark.parametrize(
    ("word", "says"), [("plan", "--process"), ("profile", "measure each"), ("tuning", "families or names")]
)
def test_help_explains_a_word(said, form, word, says):
    found = said(form.format(word), {})
    assert found.startswith(f"{word}  ") and says in found


def test_help_on_an_unknown_word_suggests_the_nearest_one(said):
    with pytest.raises(SpecError) as caught:
        said("help profle")
    assert (caught.value.problem, caught.value.hint) == ("there is no help on 'profle'", "Did you mean 'profile'?")
