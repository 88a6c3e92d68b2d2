"""The functions of `import dispatchflow` are tested here, except for what needs IREE's tools."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest

import dispatchflow
from dispatchflow.errors import SpecError, StoreError
from dispatchflow.results import parquet
from dispatchflow.results.site_rows import SITE_ROWS

SPEC = """
[[sweep]]
operation = "matmul"
m = [8, 16]
n = 16
k = 16
target = "vmvx"
threads = 1
tags = ["small"]
"""
PART = "20260101T0{}0000Z-abcd.parquet"


def test_the_interface_is_imported_when_it_is_used() -> None:
    lines = (
        "import sys, dispatchflow",
        "assert not {'doit', 'numpy', 'pyarrow', 'dispatchflow.interface'} & sys.modules.keys()",
        "import dispatchflow.cases.case",
        "from dispatchflow.cases import rotating_inputs",
        "assert callable(dispatchflow.cases) and callable(dispatchflow.read) and callable(dispatchflow.run)",
        "assert not hasattr(dispatchflow, 'other')",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


def test_cases_of_a_text_a_file_and_a_directory_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(SPEC)

    found = dispatchflow.cases(SPEC)

    assert found == dispatchflow.cases(tmp_path / "a.toml") == dispatchflow.cases(str(tmp_path))
    assert [(case["case"], case["m"], case["threads"], case["tags"]) for case in found] == [
        ("matmul_8x16x16_f32t_f32t_f32t_default@vmvx-1t", 8, 1, ["small"]),
        ("matmul_16x16x16_f32t_f32t_f32t_default@vmvx-1t", 16, 1, ["small"]),
    ]
    assert found[0].keys() <= parquet.COLUMNS.keys()


def test_a_wrong_spec_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="unknown operation"):
        dispatchflow.cases(SPEC.replace("matmul", "matmull"))
    with pytest.raises(SpecError, match="there are no specs here"):
        dispatchflow.cases(tmp_path / "none.toml")


@pytest.mark.parametrize("of", [parquet.CASES, SITE_ROWS], ids=lambda of: of.folder)
def test_rows_of_all_parts_are_one_table_in_the_order_of_their_numbers(tmp_path: Path, of: parquet.Table) -> None:
    parquet.write_part(tmp_path / PART.format(2), [{"case": "first", "number": 1, "recorded_at": 9.0}], of)
    parquet.write_part(tmp_path / PART.format(1), [{"case": "second", "number": 2, "recorded_at": 5.0}], of)

    table = dispatchflow.read(tmp_path)

    assert isinstance(table, pa.Table)
    assert table["case"].to_pylist() == ["first", "second"]
    assert table.column_names == list(of.columns)
    assert dispatchflow.read(tmp_path / PART.format(1))["case"].to_pylist() == ["second"]
    renamed = (tmp_path / PART.format(1)).rename(tmp_path / "kept.parquet")
    assert dispatchflow.read(renamed)["case"].to_pylist() == ["second"]


def test_reading_a_path_without_rows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there are no rows here"):
        dispatchflow.read(tmp_path)
    (tmp_path / "other.parquet").write_bytes(b"PAR1")
    with pytest.raises(StoreError, match="there is no file or directory of rows here"):
        dispatchflow.read(tmp_path / "none.parquet")
    with pytest.raises(StoreError, match="this file was not written by dispatchflow"):
        dispatchflow.read(tmp_path / "other.parquet")
    (tmp_path / "build/results").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"there are no rows here(.|\n)*Did you mean '.*build/results'"):
        dispatchflow.read(tmp_path)
    (tmp_path / PART.format(1)).write_bytes(b"PAR1 cut")
    with pytest.raises(StoreError, match="these rows cannot be read"):
        dispatchflow.read(tmp_path)


def test_a_command_returns_its_exit_code_and_prints_where_python_prints(tmp_path: Path) -> None:
    (tmp_path / "dodo.py").write_text("from dispatchflow import main\n\nmain()\n")
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/a.toml").write_text(SPEC)
    out, err = io.StringIO(), io.StringIO()

    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        codes = [
            dispatchflow.run("list", "--all", "profile", directory=tmp_path),
            dispatchflow.run("list", "nothing_*", directory=tmp_path),
            dispatchflow.run("protocol=fats", directory=tmp_path),
        ]

    assert codes == [0, 3, 2], err.getvalue()
    assert out.getvalue().splitlines() == [f"profile:{case['case']}" for case in dispatchflow.cases(SPEC)]
    assert "fats" in err.getvalue()


def test_a_directory_without_a_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no dodo\.py"):
        dispatchflow.run("list", directory=tmp_path)


def test_the_package_has_types_for_users() -> None:
    assert (Path(dispatchflow.__file__).parent / "py.typed").is_file()
    data = tomllib.loads((Path(dispatchflow.__file__).parent.parent / "pyproject.toml").read_text())
    assert "py.typed" in data["tool"]["setuptools"]["package-data"]["dispatchflow"]
