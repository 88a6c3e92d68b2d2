import re
from pathlib import Path

import pytest

from dispatchflow.cli import command_line, variables
from dispatchflow.cli.answer import answer
from dispatchflow.cli.variables import VARIABLES, parse
from dispatchflow.errors import SpecError
from dispatchflow.operations import DIMS, OPERATIONS, OPTIONS
from dispatchflow.planning import inference, location

TIME_LIMITS = ("compile_limit", "run_limit", "block_limit")
ALL = (
    "cases",
    "run",
    "report",
    "stage sites",
    "extract",
    "phases",
    "annotate",
    "known",
    "history",
    "toolchains",
    "check",
    "clean",
)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        *(("m", "64:128:64", "64:128:64"), ("dtype", "f16,f16->f32", "f16,f16->f32"), ("tags", "a, b", ("a", "b"))),
        *(("protocol", "fast", "fast"), ("verify", "warn", "warn"), ("retry", "yes", True), ("retry", "no", False)),
        *(("remeasure", "yes", "yes"), ("remeasure", "noisy", "noisy"), ("remeasure", "no", None)),
        *(
            ("remeasure", "7", 7),
            ("remeasure", "0", 0),
            ("top", "3", 3),
            ("columns", "case,score,case", ("case", "score")),
        ),
        *(("noisy", "5%", 0.05), ("noisy", "0.5%", 0.005), ("noisy", "100%", 1.0)),
        *(("compile_limit", "300", 300.0), ("run_limit", "0.5", 0.5), ("memory_limit", "512MiB", 512 << 20)),
        *(("memory_limit", "1.5GiB", 3 << 29), ("memory_limit", "none", None)),
        *(
            ("sample", "7", 7),
            ("sample", "all", None),
            ("keep", "30", (30,)),
            ("keep", "0", (0,)),
            ("dry", "yes", True),
        ),
        *(("keep", "referenced", ("referenced",)), ("keep", "30,referenced", (30, "referenced"))),
        *(("limit", "12B", 12), ("limit", "2GiB", 2 << 30), ("limit", "1.5 KB", 1500), ("limit", "1TiB", 1 << 40)),
        *(("file", "a b.mlir", ("a b.mlir",)), ("file", "a.mlir,b.mlir", ("a.mlir", "b.mlir"))),
        *(("expected", "a b.npy; c.bin", ("a b.npy", "c.bin")), ("rtol", "1e-3", 1e-3), ("name", "x", "x")),
        *(("sites", "1, 10", (1, 10)), ("sites", "all", None)),
        *(("history", "yes", True), ("specs", "a b.toml, c", ("a b.toml", "c")), ("operation", "matmul", ("matmul",))),
        ("operation", "conv2d, matmul,conv2d", ("conv2d", "matmul")),
    ],
)
def test_variable_is_read_as_its_kind(name, text, value):
    found = parse({name: text}, ALL)
    assert found == {name: value}
    assert type(found[name]) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        *(
            *(("noisy", word, "a percentage such as 5%") for word in ("5", "0%", "101%", "-1%", "nan%", "much", "")),
            ("protocol", "slow", "fast, std, thorough"),
            ("verify", "yes", "on, off, warn"),
            ("verify", "", "on, off, warn"),
        ),
        *(("retry", "true", "yes, no"), ("retry", "YES", "yes, no"), ("history", "1", "yes, no")),
        *(("remeasure", "-1", "yes, no, noisy"), ("remeasure", "1.5", "noisy, or a whole number of days")),
        *(("rtol", "x", "a number"), ("top", "0", "1 or more")),
        *(("top", "-1", "1 or more"), ("top", "many", "1 or more"), ("operation", "x", "matmul")),
        *((name, text, "seconds") for name in TIME_LIMITS for text in ("0", "-1", "", "5min", "nan", "inf", "1e7")),
        *(("memory_limit", text, "8GiB") for text in ("", "0GiB", "8", "8gib", "-1GiB", "all")),
        *(
            ("sample", "1.5", "a whole number, 1 or more"),
            ("keep", "1.5", "a whole number of days"),
            ("keep", "-1", "days, referenced"),
            ("keep", "all", "days, referenced"),
        ),
        *(("limit", "2", "2GiB"), ("limit", "-1GiB", "2GiB"), ("limit", "2 gib", "2GiB"), ("dry", "no way", "yes, no")),
        *(("specs", text, "one or more paths") for text in ("", " , ")),
        *(("out", "", "a file's path"), ("tags", "", "one or more words"), ("columns", " , ", "one or more words")),
    ],
)
def test_a_wrong_value_is_an_error_that_lists_the_allowed_values(name, text, says):
    with pytest.raises(SpecError) as caught:
        parse({name: text}, ALL)
    assert caught.value.problem == f"{name} cannot be '{text}'"
    assert says in str(caught.value.facts["allowed"])
    assert caught.value.hint[1:] == f"{VARIABLES[name].meaning[1:]}."  # units keep their capitals


def test_a_wrong_limit_is_explained_for_the_command_that_takes_it():
    for groups, says in ((("clean",), "Remove the oldest objects"), (("cases", "limit"), "The largest capture")):
        with pytest.raises(SpecError, match="limit cannot be 'abc'") as caught:
            parse({"limit": "abc"}, groups)
        assert caught.value.hint.startswith(says)


SUMS = [name for name, cls in OPERATIONS.items() if "kind" in cls.options and "sum" in cls.options["kind"].values]


def test_an_unknown_value_is_refused_with_the_nearest_known_value():
    with pytest.raises(SpecError, match="operation cannot be 'conv3d'") as caught:
        parse({"operation": "conv3d"}, ALL)
    assert caught.value.hint == "Did you mean 'conv2d'?"


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("gemm", "Write operation=matmul."),
        ("matmul,layer_norm", "'layer_norm' is unknown. Write operation=norm kind=layer."),
        ("RMS-norm", "Write operation=norm kind=rms."),
        ("gelu", "Write operation=elementwise kind=gelu."),
        ("sum", f"Write {' or '.join(f'operation={name} kind=sum' for name in SUMS)}."),
    ],
)
def test_another_library_s_name_of_an_operation_is_translated_in_the_hint(word, hint):
    with pytest.raises(SpecError) as caught:
        parse({"operation": word}, ALL)
    assert caught.value.hint == hint


@pytest.mark.parametrize("meaning", inference._FIELD.values())
def test_every_name_of_another_library_maps_to_an_operation(meaning):
    name, *kind = meaning.split()
    assert set(kind) <= set(OPERATIONS[name].options["kind"].values if kind else ())


def test_unknown_variable_is_refused_with_the_nearest_known_one():
    with pytest.raises(SpecError, match="unknown variable 'protocl'") as caught:
        parse({"protocl": "fast"}, ALL)
    assert caught.value.facts["given"] == "protocl=fast"
    assert caught.value.hint == "Did you mean 'protocol'?"


def test_the_command_that_traces_is_named_where_a_variable_would_request_a_trace():
    for words, out in (
        ({"trace": "tracy"}, "net.tracy"),
        ({"keep": "a.tracy"}, "net.tracy"),
        ({"trace": "perfetto"}, "net.json"),
    ):
        with pytest.raises(SpecError) as caught:
            parse(words, ("cases", "run"))
        assert f"doit trace CASE out={out}" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "groups"),
    [("sort", ("cases", "run")), ("protocol", ("report",)), ("m", ("report",)), ("top", ()), ("history", ("report",))],
)
def test_variable_of_another_command_is_refused_as_such(name, groups):
    with pytest.raises(SpecError, match=f"'{name}=' means nothing to this command"):
        parse({name: "1"}, groups)


def test_a_command_may_take_a_single_variable_of_a_group():
    assert parse({"iree": "3.12.0"}, ("check", "iree")) == {"iree": "3.12.0"}
    with pytest.raises(SpecError, match="'retry=' means nothing to this command"):
        parse({"retry": "yes"}, ("check", "iree"))


def test_every_variable_says_what_it_means_and_belongs_to_a_group():
    assert {variable.group for variable in VARIABLES.values()} == set(ALL)
    assert all(variable.meaning for variable in VARIABLES.values())


def test_the_words_with_semicolons_are_those_of_the_hints_about_paths():
    assert {name for name, each in VARIABLES.items() if each.parse is variables._semicolons} == {*location._SEMICOLONS}


def test_every_variable_is_printed(tmp_path, capsys):
    assert answer(tmp_path, {}, command_line.read(["variables"]), None) == 0

    assert set(re.findall(r"^  (\w+)= ", capsys.readouterr().out, re.M)) == set(VARIABLES)


def test_every_variable_is_in_the_page_s_table():
    page = (Path(__file__).parent.parent.parent / "docs/specs.md").read_text()
    table = page.partition("### Variables")[2].partition("## Selection")[0]
    named = {word for first in re.findall(r"^\| (.*?) \|", table, re.M) for word in re.findall(r"`(\w+)`", first)}

    assert set(VARIABLES) - {*DIMS, *OPTIONS} <= named
