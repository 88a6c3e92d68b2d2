"""The row of each site is appended once to a file in the folder `sites`.

docs/models.md lists all columns of these rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dispatchflow.results import parquet, publish
from dispatchflow.results.site_rows import COLUMNS, SITE_ROWS, SiteRow
from dispatchflow.store.store import Store

PAGE = (Path(__file__).parent.parent.parent / "docs/models.md").read_text()
RUN, LATER = "20261123T120000Z-0123abcd", "20261124T120000Z-0123abcd"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def append(store: Store, run: str, **sites: Mapping[str, Any]) -> None:
    named = {
        f"site {name}": SiteRow({"case": "net", "site": name, "run_id": run, "recorded_at": 1.0, **cells})
        for name, cells in sites.items()
    }
    assert publish.append(store, run, named, SITE_ROWS) is None


def read(store: Store) -> list[dict[str, Any]]:
    return parquet.read(store.root / "sites", SITE_ROWS)


def test_docs_have_all_columns_with_their_types_units_and_meanings() -> None:
    section = PAGE.split("## Sites")[1].split("\n## ")[0]
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("| `")]
    found = {name.strip().strip("`"): tuple(cell.strip().replace("\\", "") for cell in cells) for name, *cells in lines}
    stored = {"timestamp": "timestamp[us, UTC]"}
    assert found == {name: (stored.get(kind, kind), *rest) for name, (kind, *rest) in COLUMNS.items()}
    assert list(found) == list(COLUMNS)


def test_rows_are_appended_once_to_a_folder_of_their_own(store: Store) -> None:
    append(store, RUN, one={"median_ns": 7.0, "operations": ["a", "b"]}, two={})
    append(store, LATER, one={"median_ns": 7.0, "operations": ["a", "b"], "percent_of_peak": 9.0}, two={})
    assert [part.name for part in (store.root / "sites").iterdir()] == [f"{RUN}.parquet"]
    append(store, LATER, one={"median_ns": 8.0}, two={})
    found = read(store)
    assert [(row["site"], row["median_ns"], row["run_id"]) for row in found] == [
        ("one", 7.0, RUN), ("two", None, RUN), ("one", 8.0, LATER)
    ]  # fmt: skip
    assert found[0]["operations"] == ["a", "b"] and found[0]["number"] < found[2]["number"]
    append(store, "20261125T120000Z-0123abcd", one={"median_ns": 7.0, "operations": ["a", "b"]})
    assert [row["median_ns"] for row in read(store)][-1] == 7.0  # equal to an older row, not to the newest
    assert not list(store.results.iterdir())


def test_a_part_that_is_gone_is_written_again_from_the_records(store: Store) -> None:
    append(store, RUN, one={"flops": 3})
    (part,) = (store.root / "sites").iterdir()
    before = part.read_bytes()
    part.unlink()
    append(store, LATER)
    assert part.read_bytes() == before
    assert pq.read_schema(part).names == list(COLUMNS)
    assert publish.parts_of(store, parquet.CASES) == []


def test_a_changed_part_is_reported(store: Store) -> None:
    append(store, RUN, one={"flops": 3})
    (part,) = (store.root / "sites").iterdir()

    def damage() -> str | None:
        table = parquet.table(part, SITE_ROWS)
        assert table is not None
        return publish.damage(store, part, table, SITE_ROWS)

    assert damage() is None
    parquet.write_part(part, [{"case": "net", "flops": 4}], SITE_ROWS)
    assert damage() == "row 1 differs from the records in site"


def test_a_cell_of_another_type_is_refused(store: Store) -> None:
    told = publish.append(store, RUN, {"one": SiteRow({"case": "net", "flops": 1.5})}, SITE_ROWS)
    assert "column  flops, int64" in str(told) and not (store.root / "sites").exists()
