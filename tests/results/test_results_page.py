"""docs/results.md lists all columns of the result files, and the queries in it print the right rows."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dispatchflow.planning.parser import sweep
from dispatchflow.planning.plan import expand
from dispatchflow.results.parquet import COLUMNS, write_part

PAGE = (Path(__file__).parent.parent.parent / "docs/results.md").read_text()
CODE = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
QUERIES = dict(zip(("pyarrow", "pandas", "duckdb"), CODE, strict=True))


def documented() -> dict[str, tuple[str, str]]:
    """Return {column: (type, when the column is null)}, read from docs/results.md.

    For example, `case` has the value `("string", "never")`."""
    section = PAGE.split("## Columns")[1].split("\n## ")[0].replace("\\", "")
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {name: (kind.strip(), null.strip()) for names, kind, *_, null in lines for name in re.findall(r"\w+", names)}


def test_the_table_has_the_columns_of_the_schema_with_their_types():
    assert {name: kind.removesuffix("[us, UTC]") for name, (kind, _) in documented().items()} == COLUMNS


def test_columns_unknown_for_a_user_s_module_are_documented_as_nullable():
    spec = {"operation": "module", "file": "m.mlir", "threads": 1}
    (case,) = expand([sweep(spec, "here", lambda path: (path, b"func.func @main() { return }"))]).cases
    known = {name: getattr(case.operation, name) for name in ("element_types", "layout")}
    known |= {name: getattr(case.operation, name)() for name in ("flops", "traffic_bytes")}
    assert {documented()[name][1] for name, value in known.items() if value is None} == {"a user's module"}


def row(name: str, number: int | None, median_ns: float, **more: object) -> dict[str, object]:
    return {
        "case": name, "operation": "matmul", "shape": "8x8x8", "provider": "iree", "tuning": "default",
        "target": "llvm-cpu", "threads": 1, "cache": "hot", "status": "measured", "verification": "equal",
        "median_ns": median_ns, "flops_per_s": 1e12 / median_ns, "protocol": "std-1", "host": "here",
        "recorded_at": 100.0, "number": number,
    } | more  # fmt: skip


ROWS = [
    row("default", 1, 10.0),  # an older row of the same case as the next
    row("default", 2, 100.0),
    row("flagged", 3, 90.0, flags="--O3"),
    row("library", 4, 50.0, provider="numpy", tuning=None),
    row("cold", 5, 400.0, cache="cold"),
    row("fast", 6, 300.0, protocol="fast-1", case="default"),
    row("vmvx", 7, 900.0, target="vmvx"),
    row("suspect", 8, 1.0, tuning="data_tiling", status="suspect"),
    row("wrong", 9, 2.0, tuning="data_tiling", status="failed", verification="different"),
    row("again", 11, 80.0, threads=2),  # `all` and the number of cores are two cases of one measurement
    row("again-all", 12, 80.0, threads=2),
    row("library", 13, 50.0, status="no device", verification="not compared"),
]
OLD = row("default", None, 5.0, recorded_at=999.0)


@pytest.fixture
def shown(tmp_path, monkeypatch, capsys):
    """Return `run(library)`, which runs the query of docs/results.md for a library, such as pandas.

    `run` returns the printed text. The results are two Parquet files. The first file is old, without the columns
    `provider`, `cache`, `flags` and `number`."""
    folder = tmp_path / "build/results"
    folder.mkdir(parents=True)
    write_part(folder / "a.parquet", [OLD])
    old = pq.read_table(folder / "a.parquet").drop_columns(["provider", "cache", "flags", "number"])
    pq.write_table(old, folder / "a.parquet")
    write_part(folder / "b.parquet", ROWS)
    monkeypatch.chdir(tmp_path)

    def run(library: str) -> str:
        pytest.importorskip(library)
        exec(QUERIES[library], {})
        return str(capsys.readouterr().out)

    return run


def test_pyarrow_prints_the_fastest_right_rows(shown):
    lines = [line.split() for line in shown("pyarrow").splitlines()]
    assert [(line[0], line[-1]) for line in lines] == [("20.0", "library"), ("12.5", "again"), ("12.5", "again-all")]


# pandas and duckdb are no dependencies of dispatchflow: their tests run only where they are installed.
def test_pandas_averages_nothing(shown):
    header, _, *lines = [line.split() for line in shown("pandas").splitlines()]
    assert header == ["way", "default", "default", "--O3", "numpy"]
    # pandas leaves out the index values that a line shares with the line above it.
    found = [line[-5:] for line in lines if line[-5:-3] != ["fast-1", "here"]]
    assert found == [
        ["std-1", "here", "400.0", "NaN", "NaN"],
        ["std-1", "here", "100.0", "90.0", "50.0"],
        ["std-1", "here", "80.0", "NaN", "NaN"],
        ["std-1", "here", "900.0", "NaN", "NaN"],
    ]
    assert lines[1][-5:] == ["fast-1", "here", "300.0", "NaN", "NaN"]


def test_duckdb_names_whose_time_it_is(shown):
    lines = [[cell.strip() for cell in line.split("│")[2:-1]] for line in shown("duckdb").splitlines()]
    found = [line for line in lines if line and line[0] in ("llvm-cpu", "vmvx")]
    assert found == [
        ["llvm-cpu", "1", "cold", "std-1", "here", "default", "0.4"],
        ["llvm-cpu", "1", "hot", "fast-1", "here", "default", "0.3"],
        ["llvm-cpu", "1", "hot", "std-1", "here", "numpy", "0.05"],
        ["llvm-cpu", "2", "hot", "std-1", "here", "default", "0.08"],
        ["vmvx", "1", "hot", "std-1", "here", "default", "0.9"],
    ]
