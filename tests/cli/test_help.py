"""`doit help WORD` lists the variables of a stage or command, and names a page in docs/."""

from pathlib import Path

import pytest

from dispatchflow.cli import case_tasks, sites, variables
from dispatchflow.cli.answer import COMMANDS, answer
from dispatchflow.cli.command_line import read
from dispatchflow.stages import NAMED

ROOT = Path(__file__).parents[2]
PAGES = {**case_tasks.STAGE_PAGES, **{command.name: command.page for command in COMMANDS}}


@pytest.fixture
def told(tmp_path, capsys):
    def told(word):
        assert answer(tmp_path, {}, read(["help", word]), None) == 0
        return capsys.readouterr().out.splitlines()

    return told


def named_in(lines):
    return [line.partition("=")[0].strip() for line in lines if "=  " in line]


def test_help_on_sites_names_its_form_its_variables_with_their_meanings_and_its_page(told):
    first, form, *lines, rest, page = told("sites")
    assert first == f"sites  {case_tasks.STAGE_DOCS['sites']}"
    assert (form, page) == ("  doit 'sites:CASE'", "  see docs/models.md")
    assert sorted(named_in(lines)) == sorted(sites.VARIABLES)
    assert f"  depth=   {variables.VARIABLES['depth'].meaning}" in lines
    assert rest == "  `doit variables` lists more variables (NAME=VALUE) for cases and for runs"


def test_help_on_a_command_has_only_what_it_takes(told):
    assert named_in(told("extract")) == ["sites", "limit", "execution", "out", "replay"]
    assert told("plan")[-2:] == [
        "  `doit variables` lists the variables (NAME=VALUE) for cases and for runs",
        "  see docs/caching.md",
    ]
    assert told("variables")[1:] == ["  see docs/specs.md"]
    assert told("top") == [f"top  {variables.VARIABLES['top'].meaning}"]


def test_each_variable_is_in_the_help_of_a_stage_or_a_command(told):
    shared = variables.named(("cases", "run"))
    assert {name for word in PAGES for name in named_in(told(word))} | {*shared} == {*variables.VARIABLES}


@pytest.mark.parametrize("word", PAGES)
def test_the_page_of_a_stage_or_a_command_exists_and_shows_the_command(word):
    text = (ROOT / PAGES[word]).read_text()
    assert word in (*NAMED, "run") or f"doit {word}" in text
