"""Each rule of tests/support/prose.py reports a bad text and accepts a good one."""

from __future__ import annotations

import pytest
from support.prose import hits, is_sentence


def rules(source: str, path: str = "a.py") -> list[str]:
    return sorted({hit.rule.partition(" (")[0] for hit in hits(path, source)})


def function(docstring: str, decorator: str = "") -> str:
    return f'"""A module."""\n\n\n{decorator}\ndef f():\n    """{docstring}"""\n'


@pytest.mark.parametrize(
    "line",
    [
        "The digest of a library's call.",
        "Whether it says all its sizes.",
        "Why this release has no word for it, None when it has.",
        "The places that the compiler names.",
        "Named by its text too.",
        "The files that are left when the compiler stops.",
    ],
)
def test_a_first_line_without_a_main_clause_is_a_fragment(line: str) -> None:
    assert not is_sentence(line)
    assert rules(function(line)) == ["fragment"]


@pytest.mark.parametrize(
    "line",
    [
        "Return the digest of a library's call.",
        "Do nothing.",
        "Cases of one shape share a group.",
        "A run locks the byte at its own PID.",
        "If the driver is missing, the case is skipped.",
        "One multiply-add counts as two.",
    ],
)
def test_an_imperative_or_a_subject_with_its_verb_is_a_sentence(line: str) -> None:
    assert is_sentence(line)
    assert rules(function(line)) == []


def test_a_noun_suffices_for_properties_constants_and_modules() -> None:
    assert rules(function("The compiler flags of a case.", "@property")) == []
    assert rules('"""The flags."""\n\nFLAGS = ()\n"""The flags of all targets."""\n') == []
    assert rules('"""The flags."""\n\nFLAGS = ()\n"""Of all targets."""\n') == ["fragment", "sentence start"]


def test_a_formula_suffices_for_an_operation() -> None:
    formula = "y[m,n] = x[m,n] · w[n]"
    assert rules(f'"""{formula}"""\n') == []
    assert rules(function(formula)) == ["first line does not end its sentence", "fragment"]


def test_a_first_line_is_one_sentence_on_one_line() -> None:
    assert rules(function("Return the sizes of\n    an operand.")) == ["first line does not end its sentence"]
    assert rules(function(f"Return {'the sizes ' * 10}.")) == ["first line too long"]
    assert rules(function("Return the sizes.\n\n    They are in elements.")) == []


@pytest.mark.parametrize("start", ["Of a library there is", "Who came, found", "What is made has", "So there is"])
def test_a_sentence_that_begins_with_a_listed_word_is_reported(start: str) -> None:
    assert rules(f"# A comment. {start} one.\nx = 1\n".replace("x", '"""A module."""\nx', 1)) == ["sentence start"]
    assert rules(f"{start} one.", "a.md") == ["sentence start"]
    assert rules(f"# {start} one\n\n```\n{start} one.\n```\n`{start} one.`\n", "a.md") == []


def test_a_question_may_begin_with_a_listed_word() -> None:
    assert rules("What does a run cost?", "a.md") == []


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        ("It is made anew.", "It is made again."),
        ("The runtime is told the sizes.", "Two rows can be told apart."),
        ("The library lacks it.", "For lack of space, it stops."),
        ("It runs so many blocks.", "There are not so many as before."),
        ("All is right but for one row.", "All rows except one are right."),
        ("It is None where nothing is known.", "It is None if nothing is known."),
    ],
)
def test_words_of_the_list_are_found(bad: str, good: str) -> None:
    assert rules(bad, "a.md") == ["word"]
    assert rules(good, "a.md") == []


def test_long_sentences_are_found_but_not_lists_of_numbers() -> None:
    assert rules(f"This is {'very ' * 45}long.", "a.md") == ["sentence too long"]
    assert rules(f"The sizes are {'16, 32, ' * 40}64.", "a.md") == []


def test_a_hit_names_its_file_line_rule_and_words() -> None:
    (hit,) = hits("a.md", "# A page\n\nFirst paragraph.\n\nIt is mended.\n")
    assert str(hit) == "a.md:5: word (write: fix): mended"
