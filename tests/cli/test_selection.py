import pytest
from doit.task import Task

from dispatchflow.cli.answer import answer
from dispatchflow.cli.command_line import read
from dispatchflow.cli.commands._base import print_skips
from dispatchflow.cli.selection import foreign_tasks, select, with_dependencies
from dispatchflow.errors import NothingMatched, SpecError
from dispatchflow.planning.plan import Skip
from dispatchflow.project.dodo_file import namespace
from dispatchflow.stages import STAGES

SPEC = """
[[sweep]]
operation = "matmul"
m = [8, 16]
n = 8
k = 8
tuning = ["default", "data_tiling"]

[[sweep]]
operation = "matmul"
m = 8
n = 8
k = 8
tuning = "double_tiling_64x64_4x16x4"
target = "vmvx"
"""
DEFAULT_8 = "matmul_8x8x8_f32t_f32t_f32t_default@llvm-cpu"
OWN = ("train", "tidy")


@pytest.fixture(scope="module")
def plan(plan_of):
    return plan_of(SPEC)


def selected(words, plan):
    found = select(words, plan, OWN, ("list", "report"))
    return {stage: [case.name for case in cases] for stage, cases in found.cases.items()}, found.foreign


@pytest.mark.parametrize(
    ("words", "counts", "foreign"),
    [
        ([], {"profile": 4}, []),
        (["profile"], {"profile": 4}, []),
        (["profile:*"], {"profile": 4}, []),
        (["compile:matmul_8x*"], {"compile": 2}, []),
        (["verify:*default*", "verify:*tiling*"], {"verify": 4}, []),
        (["verify:*", "profile:*[!g]@llvm-cpu"], {"verify": 4, "profile": 2}, []),
        ([f"profile:{DEFAULT_8}"], {"profile": 1}, []),
        (["*if*"], {"verify": 4}, []),
        (["*"], dict.fromkeys(STAGES, 4), ["train", "tidy"]),
        (["t*"], {}, ["train", "tidy"]),
        (["tidy", "emit"], {"emit": 4}, ["tidy"]),
        (["sites"], {"sites": 4}, []),
        (["sites:matmul_8x*", "profile"], {"profile": 4, "sites": 2}, []),
    ],
)
def test_words_select_stages_cases_and_tasks(words, counts, foreign, plan):
    cases, tasks = selected(words, plan)
    assert {stage: len(names) for stage, names in cases.items()} == counts
    assert tasks == foreign


def test_a_name_selects_only_that_case(plan):
    assert selected([f"profile:{DEFAULT_8}"], plan)[0] == {"profile": [DEFAULT_8]}


def test_a_case_that_is_selected_twice_appears_once(plan):
    assert len(selected(["profile:*8x8x8*", "profile:*", "profile"], plan)[0]["profile"]) == 4


def test_the_last_stage_of_a_case_is_the_furthest_requested_stage(plan):
    found = select(["profile:*_8x*", "compile"], plan, (), ())
    assert {case.operation.sizes[0]: stage for case, stage in found.last_stage().items()} == {
        8: "profile",
        16: "compile",
    }


@pytest.mark.parametrize("word", ["profile:*17x*", "verify:matmul_9x*", f"profile:{DEFAULT_8}x", "x*", "profil?:*"])
def test_a_pattern_that_matches_nothing_raises_nothing_matched(word, plan):
    with pytest.raises(NothingMatched) as caught:
        select([word], plan, OWN, ())
    assert caught.value.problem == f"nothing matches '{word}'"
    assert caught.value.exit_code == 3
    assert caught.value.hint


def test_the_nearest_name_is_suggested(plan):
    with pytest.raises(NothingMatched) as caught:
        select(["profile:matmul_8x8x8_f32_f32t_f32t_default@llvm-cpu"], plan, (), ())
    assert caught.value.hint == f"Did you mean '{DEFAULT_8}'?"
    assert caught.value.facts == {"cases": "4 in the plan", "for example": plan.cases[0].name}


@pytest.mark.parametrize("pattern", ["*vmvx*", "matmul_8x8x8_f32t_f32t_f32t_double_tiling_64x64_4x16x4@vmvx"])
def test_a_word_that_matches_only_skips_selects_nothing_without_an_error(pattern, plan):
    word = f"profile:{pattern}"
    assert selected([word], plan) == ({"profile": []}, [])
    (skip,) = select([word], plan, OWN, ()).skips
    assert skip.reason.startswith("double tiling is a configuration of llvm-cpu")


@pytest.mark.parametrize(
    ("words", "count"),
    [((), 1), (("profile",), 1), (("prof*",), 1), (("verify:*vmvx",), 1), (("profile:*llvm*",), 0), (("train",), 0)],
)
def test_skips_that_match_the_words_are_selected(words, count, plan):
    assert len(select(words, plan, OWN, ()).skips) == count


def test_empty_plan_matches_nothing(plan_of):
    with pytest.raises(NothingMatched, match="nothing matches 'profile'"):
        select([], plan_of(""), (), ())


@pytest.mark.parametrize(
    ("word", "hint"),
    [("profil", "Did you mean 'profile'?"), ("tidi", "Did you mean 'tidy'?"), ("reprot", "Did you mean 'report'?")],
)
def test_an_unknown_word_is_an_error_that_lists_the_known_words(word, hint, plan):
    with pytest.raises(SpecError) as caught:
        select([word], plan, OWN, ("list", "report"))
    assert caught.value.problem == f"'{word}' is not a task"
    assert caught.value.exit_code == 2
    assert caught.value.facts == {
        "stages": "emit, compile, verify, profile, sites",
        "commands": "list, report",
        "other tasks": "train, tidy",
    }
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("words", "hint"),
    [(["profile:*", "report"], "Write doit report 'profile:*'."), (["report"], "Write doit report.")],
)
def test_a_command_after_other_words_is_an_error(plan, words, hint):
    with pytest.raises(SpecError, match="'report' is a command") as caught:
        select(words, plan, OWN, ("list", "report"))
    assert caught.value.hint == hint


@pytest.mark.parametrize("word", ["profile:", "foo:bar", DEFAULT_8, ""])
def test_a_name_after_an_unknown_stage_is_refused(word, plan):
    with pytest.raises(SpecError, match="is not a task"):
        select([word], plan, OWN, ())


def test_cases_that_own_tasks_depend_on_are_selected_too(plan):
    own = [
        Task("train", None, task_dep=["tidy", "compile:matmul_8x*"]),
        Task("tidy", None, task_dep=[f"verify:{DEFAULT_8}"], setup=["last"]),
        Task("last", None, task_dep=["emit"]),
        Task("other", None, task_dep=["profile"]),
    ]
    found = with_dependencies(select(["train"], plan, [task.name for task in own], ()), own, plan)
    assert {stage: len(cases) for stage, cases in found.cases.items()} == {"compile": 2, "verify": 1, "emit": 4}
    assert found.foreign == ["train"]


@pytest.mark.parametrize(("word", "count"), [("profile:*", 1), ("verify:*vmvx", 1), ("profile:*llvm*", 0)])
def test_skips_that_own_tasks_depend_on_are_selected_too(word, count, plan):
    own = [Task("train", None, task_dep=[word])]
    assert len(with_dependencies(select(["train"], plan, ["train"], ()), own, plan).skips) == count


def test_own_tasks_that_depend_on_each_other_cause_no_endless_loop(plan):
    own = [Task("a", None, task_dep=["b"]), Task("b", None, task_dep=["a"])]
    assert with_dependencies(select(["a"], plan, ["a", "b"], ()), own, plan).cases == {}


def test_an_own_task_that_depends_on_a_missing_case_is_an_error(plan):
    own = [Task("train", None, task_dep=["verify:matmul_9x9x9"])]
    with pytest.raises(NothingMatched, match="verify:matmul_9x9x9"):
        with_dependencies(select(["train"], plan, ["train"], ()), own, plan)


def test_tasks_below_main_in_a_dodo_file_are_found(tmp_path):
    (tmp_path / "dodo.py").write_text('def task_own():\n    return {"actions": None}\n')
    assert [task.name for task in foreign_tasks(namespace(tmp_path / "dodo.py"), ())] == ["own"]
    assert foreign_tasks({"no": "tasks"}, ()) == []


def test_a_variable_that_is_given_twice_is_refused():
    with pytest.raises(SpecError, match="'top=' is given twice") as caught:
        read(["best", "top=1", "-n", "2", "top=1"])
    assert caught.value.facts == {"given": "top=1 top=1"}


def test_list_skipped_ends_with_a_count_of_each_reason(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("doit.doit_cmd._CMDLINE_VARS", {})
    words = ["operation=conv2d", "shape=1x4x4x2x2x3x3,1x2x2x2x2x3x3", "padding=0,1", "groups=1,3", "threads=1"]

    assert answer(tmp_path, {}, read(["list", "skipped", *words]), None) == 0

    *skips, empty, first, second = capsys.readouterr().out.splitlines()
    assert (len(skips), empty) == (5, "")
    assert first == "     4  2 channels and 2 results are not both multiples of 3 groups"
    assert second.startswith("     1  a window of 3x3 with this dilation does not fit")


@pytest.mark.parametrize("word", ["own", "ow*"])
def test_explaining_an_own_task_is_an_error_that_names_the_task(tmp_path, word):
    names = {"task_own": lambda: {"actions": None}}
    with pytest.raises(SpecError, match="'own' is a task of your own"):
        answer(tmp_path, names, read(["explain", word, "m=8", "n=8", "k=8"]), None)


@pytest.mark.parametrize("words", ["-s skipped", "--all skipped", "-s own"])
def test_options_of_list_that_have_no_effect_are_refused(tmp_path, words):
    names = {"task_own": lambda: {"actions": None}}
    with pytest.raises(SpecError, match=r"takes no option|-s is for cases"):
        answer(tmp_path, names, read(["list", *words.split(), "m=8", "n=8", "k=8"]), None)


def test_sweeps_that_exclude_all_their_cases_are_named(plan_of):
    text = '[[sweep]]\noperation = "matmul"\nshape = "4x4x4"\nexclude = "*"'
    with pytest.raises(NothingMatched) as caught:
        select([], plan_of(text), [], ())
    assert (
        caught.value.hint
        == "The specs have no [[sweep]], or its include and exclude leave nothing; doit m=512 n=512 k=512 needs none."
    )


def test_list_skipped_aligns_the_reasons(capsys):
    print_skips([Skip("short", "no", ""), Skip("a_longer_name", "no", "")])

    assert capsys.readouterr().out.splitlines()[:2] == ["short          no", "a_longer_name  no"]
