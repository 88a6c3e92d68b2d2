"""docs/layout.md shows the layers that import-linter checks, and each name on the page exists."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import grimp
import pytest

import dispatchflow

PACKAGE = Path(dispatchflow.__file__).parent
ROOT = PACKAGE.parent
PAGE = (ROOT / "docs/layout.md").read_text()
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
(LAYERS,) = (contract["layers"] for contract in CONTRACTS if contract["type"] == "layers")
(PURE,) = (contract["source_modules"] for contract in CONTRACTS if contract["name"] == "What is pure has no effects")
PACKAGES = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)
ROOMS = {folder.name for folder in PACKAGES if folder.parent == PACKAGE}
FACE = {"interface", "microbenchmark"}
GROUND = {path.stem for path in PACKAGE.glob("[!_]*.py")} - FACE
SECTIONS = dict(re.findall(r"^### (.*)\n\n((?:.+\n)+)", PAGE, re.M))
EMPTY_NAMES = {"utils", "util", "common", "core", "helpers", "misc"}


def modules(folder: Path) -> list[str]:
    return [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]


@cache
def definitions(path: Path) -> set[str]:
    found = set()
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.FunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name, body=body):
                found |= {name, *(f"{name}.{each.name}" for each in body if isinstance(each, ast.FunctionDef))}
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                found.add(name)
    return found


def test_the_picture_is_the_contract_of_layers() -> None:
    picture, *others = re.findall(r"^```\n(.*?)\n```$", PAGE, re.M | re.S)
    assert [re.split(r" {2,}", line)[0] for line in picture.splitlines()] == LAYERS
    assert not others


def test_every_package_has_a_layer_and_a_section() -> None:
    assert {name for layer in LAYERS for name in re.split(r" [|:] ", layer)} == ROOMS | GROUND | FACE
    packages = {folder.relative_to(PACKAGE).as_posix() for folder in PACKAGES}
    headings = [name for heading in SECTIONS for name in re.findall(r"`([\w/]+)`", heading)]
    assert sorted(headings) == sorted(packages)
    assert [heading for heading in SECTIONS if "`" not in heading] == ["The Python interface", "Ground"]
    assert {f"{name}.py" for name in GROUND} == set(re.findall(r"`(\w+\.py)`", SECTIONS["Ground"]))
    assert {f"{name}.py" for name in FACE} == set(re.findall(r"`(\w+\.py)`", SECTIONS["The Python interface"]))


@pytest.mark.parametrize("heading", SECTIONS)
def test_each_section_says_what_its_package_holds_and_imports_and_how_to_add_to_it(heading: str) -> None:
    assert re.findall(r"^- (\w+): ", SECTIONS[heading], re.M) == ["Holds", "Imports", "Add"]


def test_packages_that_the_page_calls_pure_are_pure_by_contract() -> None:
    said = {
        heading.strip("`") for heading, text in SECTIONS.items() if re.search(r"^- Imports: .*\bPure\b", text, re.M)
    }
    held = {name.removeprefix("dispatchflow.") for name in PURE}
    assert held >= GROUND
    assert said == held & ROOMS | {"Ground"}


def test_files_that_the_page_names_are_there() -> None:
    named = {name for name in re.findall(r"`([\w./]+\.(?:py|toml))[`:]", PAGE) if not name.endswith("….py")}
    assert len(named) > 50
    assert [name for name in sorted(named) if not any((base / name).is_file() for base in (PACKAGE, ROOT))] == []
    links = re.findall(r"\]\(([^)#]+)", PAGE)
    assert links and all((ROOT / "docs" / link).is_file() for link in links if "://" not in link)


def answers() -> list[tuple[str, str]]:
    table = PAGE.partition("## Where is …?\n")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(lines) >= 12 and all("`" in line.split("|")[2] for line in lines)
    return [found for line in lines for found in re.findall(r"`([\w./]+\.py):([\w.]+)`", line)]


@pytest.mark.parametrize(("file", "name"), answers())
def test_each_answer_names_an_existing_definition(file: str, name: str) -> None:
    assert name in definitions(PACKAGE / file)


def test_models_to_copy_are_there() -> None:
    # Each model that an item `Add` of docs/layout.md names is a word in a file that the item names.
    for heading, text in SECTIONS.items():
        add = text.partition("- Add: ")[2]
        texts = [(PACKAGE / name).read_text() for name in re.findall(r"`([\w/]+\.(?:py|toml))`", add)]
        for model in re.findall(r"model: `(\w+)`", add):
            assert any(re.search(rf"\b{model}\b", text) for text in texts), (heading, model)


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_each_package_has_several_modules_and_a_meaningful_name(folder: Path) -> None:
    assert len(modules(folder)) > 1
    assert not EMPTY_NAMES & {folder.name, *(name.lstrip("_") for name in modules(folder))}


def test_tests_are_in_a_folder_named_after_the_package_that_they_test() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("test_*.py"))}
    assert folders == ROOMS - {"mlir"} | {"contract", "system"}


def test_no_files_import_each_other_in_a_circle() -> None:
    # Imports under TYPE_CHECKING count too.
    graph = grimp.build_graph("dispatchflow", exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    while leaves := {module for module, found in imports.items() if not found & imports.keys()}:
        imports = {module: found for module, found in imports.items() if module not in leaves}
    # The remaining modules are in a circle, or import one that is.
    assert imports == {}


def test_files_are_short() -> None:
    files = [*ROOT.glob("dispatchflow/**/*.py"), *ROOT.glob("tests/**/*.py")]
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in files}
    assert {name: count for name, count in lines.items() if count > 300} == {}


def test_files_of_tests_have_unique_names() -> None:
    # pytest imports a file by its name without folders, and refuses a second file of that name in a run.
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []
