"""Check the English of docstrings, comments and pages.

Usage: `python tests/support/prose.py [PATH… | --count]`.
`[tool.prose.exceptions]` in pyproject.toml lists, for each file, words that are not reported.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LONGEST_LINE = 100
LONGEST_SENTENCE = 45

LISTS = tomllib.loads(Path(__file__).with_name("prose_words.toml").read_text())
WORDS: dict[str, str] = LISTS["words"]
VERBS, AUXILIARIES, SUBORDINATES, DETERMINERS = (
    frozenset(LISTS[name].split()) for name in ("imperatives", "auxiliaries", "subordinates", "determiners")
)
STARTS = re.compile(rf"(?:{'|'.join(LISTS['starts'])})\b[^?]*$")
FRAGMENT = re.compile(rf"(?i:{'|'.join(LISTS['fragments'].split())})\b")
FORMULA = re.compile(r"\w\[[\w,]+\] = ")
"""Matches the beginning of a formula, such as `C[m,n] = `.

The docstring of an operation's module may be the formula of the operation instead of a sentence."""
NOUN_KINDS = ("module", "class", "attribute", "property")


@dataclass(frozen=True, slots=True)
class Text:
    """A docstring, a comment, or a part of a page such as a paragraph.

    `line` is the number of the line on which it begins."""

    line: int
    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class Hit:
    path: str
    line: int
    rule: str
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.words}"


def is_sentence(line: str) -> bool:
    """Return whether a line begins with an imperative verb or has a main clause.

    Verbs are recognized by the word lists of prose_words.toml."""
    words = re.findall(r"[\w'-]+|[,;:.()]", re.sub(r"`[^`]*`", "X", line))
    if words and words[0][0].isupper() and (words[0].lower() in VERBS or words[0] == "Do"):
        return True
    plural, open_clauses = bool(words) and words[0].endswith("s"), 0
    for before, word in zip(["", *words], words, strict=False):
        low, previous = word.lower(), before.lower()
        if low in SUBORDINATES and previous not in ("the", "a"):
            open_clauses += 1
        elif low in AUXILIARIES or _is_finite(low, previous, plural):
            if open_clauses == 0 and before:
                return True
            open_clauses = max(0, open_clauses - 1)
    return False


def _is_finite(word: str, previous: str, plural_subject: bool) -> bool:
    stems = {word[:-1], word[:-2], f"{word[:-3]}y"} if word.endswith("s") else set()
    if stems & VERBS:
        return previous not in DETERMINERS
    plural = plural_subject or (previous.endswith("s") and not previous.endswith(("'s", "ss")))
    return word in VERBS and plural and previous not in DETERMINERS | AUXILIARIES


def first_line(text: Text) -> Iterator[tuple[str, str]]:
    """Yield each fault of a docstring's first line as (the rule, the words that break the rule)."""
    line, *rest = text.content.strip("\n").splitlines()
    line = line.strip()
    if text.kind == "module" and FORMULA.match(line):
        return
    if len(line) > LONGEST_LINE:
        yield "first line too long", f"{len(line)} characters: {line[:50]}…"
    if not line.endswith((".", "?", ".)", "…")) or (rest and rest[0].strip()):
        yield "first line does not end its sentence", line[-50:]
    noun = text.kind in NOUN_KINDS
    if (not noun or FRAGMENT.match(line)) and not is_sentence(line):
        yield "fragment", line[:60]


def faults(text: Text) -> Iterator[tuple[str, str]]:
    """Yield each fault of a text as (the rule, the words that break the rule)."""
    if text.kind in (*NOUN_KINDS, "function") and text.content.strip():
        yield from first_line(text)
    prose = re.sub(r"`[^`]*`", "`x`", re.sub(r"\]\([^)]*\)", "]", text.content))
    for pattern, instead in WORDS.items():
        for match in re.finditer(pattern, prose):
            yield f"word (write: {instead})", match[0]
    if text.kind == "heading":
        return
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.|\w+:) |\b[A-Z]\w+:\n", prose):
        for sentence in re.split(r"(?<=[.?!])[)*_]*\s+(?=[A-Z`*\d(])", " ".join(paragraph.split())):
            if STARTS.match(sentence):
                yield "sentence start", sentence[:60]
            drawn = text.kind == "cell" or re.search(r"\S {3,}\S|[├└│]", paragraph)
            if not drawn and (count := len(re.findall(r"[^\W\d][\w'-]*", sentence))) > LONGEST_SENTENCE:
                yield "sentence too long", f"{count} words: {sentence[:50]}…"


def python_texts(source: str) -> Iterator[Text]:
    """Yield the docstrings, attribute docstrings and comments of a Python file."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for before, each in zip([None, *body], body, strict=False):
            if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)):
                continue
            if isinstance(each.value.value, str) and (kind := _kind(node, before)):
                yield Text(each.lineno, kind, each.value.value)
    block, last = list[str](), -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or re.match(r"#!|# (?:type|noqa|fmt|ruff|mypy)\b", token.string):
            continue
        alone = token.line.strip().startswith("#")
        if not (alone and block and token.start[0] == last + 1):
            if block:
                yield Text(last - len(block) + 1, "comment", "\n".join(block))
            block = []
        block, last = [*block, token.string.lstrip("# ")], token.start[0]
        if not alone:
            yield Text(last, "comment", block.pop())
    if block:
        yield Text(last - len(block) + 1, "comment", "\n".join(block))


def _kind(owner: ast.AST, before: ast.stmt | None) -> str | None:
    if isinstance(before, ast.Assign | ast.AnnAssign):
        return "attribute"
    if before is not None:
        return None
    if isinstance(owner, ast.FunctionDef):
        is_property = any("property" in ast.unparse(each) for each in owner.decorator_list)
        return "property" if is_property else "function"
    return {ast.Module: "module", ast.ClassDef: "class"}.get(type(owner))


def page_texts(source: str) -> Iterator[Text]:
    """Yield the headings, paragraphs and table cells of a Markdown page, without code blocks.

    A list counts as a paragraph."""
    source = re.sub(r"^```.*?^```", lambda match: "\n" * match[0].count("\n"), source, flags=re.M | re.S)
    for match in re.finditer(r"(?:^(?!\s*$).+\n?)+", source, re.M):
        begin = source.count("\n", 0, match.start()) + 1
        if match[0].startswith("|"):
            for i, row in enumerate(match[0].splitlines()):
                yield from (Text(begin + i, "cell", cell.strip()) for cell in row.split("|") if cell.strip(" -"))
        else:
            yield Text(begin, "heading" if match[0].startswith("#") else "paragraph", match[0])


def hits(path: str, source: str) -> list[Hit]:
    texts = python_texts(source) if path.endswith(".py") else page_texts(source)
    found = {Hit(path, text.line, rule, words) for text in texts for rule, words in faults(text)}
    return sorted(found, key=lambda hit: (hit.line, hit.rule))


def within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def print_counts(found: list[Hit]) -> None:
    """Print how many faults each folder, such as `dispatchflow/store`, has: in total and for each rule."""
    rooms = defaultdict[str, list[str]](list)
    for hit in found:
        rooms["/".join(hit.path.split("/")[:2])].append(hit.rule.partition(" (")[0])
    for name, every in sorted(rooms.items()):
        rules = Counter(every)
        print(f"{rules.total():5} {name}: {', '.join(f'{count} {rule}' for rule, count in sorted(rules.items()))}")
    print(f"{len(found):5} in all:", Counter(hit.rule.partition(" (")[0] for hit in found))


def main(settings: Mapping[str, Any], arguments: list[str]) -> int:
    """Print language faults, and unused entries of `settings["exceptions"]`; return the exit code.

    `arguments` may name the files or folders whose faults are printed. With `--count`, only
    numbers of faults are printed, and 0 is returned."""
    code = ("dispatchflow/**/*.py", "tests/**/*.py", "benchmarks/*.py", "dodo.py")
    files = [path for pattern in (*code, "*.md", "docs/**/*.md") for path in ROOT.glob(pattern)]
    found = [hit for file in sorted(files) for hit in hits(file.relative_to(ROOT).as_posix(), file.read_text())]
    if arguments == ["--count"]:
        print_counts(found)
        return 0
    exceptions = {(path, words) for path, every in settings["exceptions"].items() for words in every}
    unused, wrong = set(exceptions), False
    for hit in found:
        excepted = {(path, words) for path, words in exceptions if path == hit.path and words in hit.words}
        unused -= excepted
        if not excepted and (not arguments or within(hit.path, arguments)):
            print(hit)
            wrong = True
    for path, words in sorted(unused):
        print(f"pyproject.toml: the exception {words!r} of {path} is not needed")
    return bool(wrong or unused)


if __name__ == "__main__":
    sys.exit(main(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["prose"], sys.argv[1:]))
