"""All rows reach Parquet, and what is there is what was recorded."""

import random
from types import SimpleNamespace

import pytest

from dispatchflow.results import parquet, publish
from dispatchflow.results.parquet import read
from dispatchflow.store.store import Store
from dispatchflow.timing.protocols import PROTOCOLS

FAST = PROTOCOLS["fast"]
RUN = "20261123T120000Z-0123abcd"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def row_with(name, cells):
    chain = SimpleNamespace(case=SimpleNamespace(name=name, operation=None))
    return SimpleNamespace(chain=chain, identity=f"of {name}", cells={"case": name, "recorded_at": 1.0} | cells)


def test_a_row_that_does_not_fit_its_columns_is_told_and_written_once_it_does(store):
    good = row_with("a", {"flops": 7})
    told = publish.publish(store, RUN, FAST, [row_with("b", {"flops": 1.5}), good, row_with("c", {"flops": 2.0})])
    assert str(told).startswith(
        "a row does not fit its columns:\n  case    b\n  column  flops, int64\n  value   1.5, float\n"
        "  rows    2 not written, the others are\n"
    )
    assert [row["case"] for row in read(store.results)] == ["a"]
    assert publish.publish(store, "run-2", FAST, [row_with("b", {"flops": 2}), good]) is None
    assert [(row["case"], row["flops"]) for row in read(store.results)] == [("a", 7), ("b", 2)]


def test_recorded_rows_that_do_not_fit_are_written_without_those_cells(store, caplog):
    rows = {"a": ("i1", {"case": "a", "recorded_at": 1.0, "kind": 1, "flops": 7}), "b": ("i2", {"case": "b", "recorded_at": 1.0, "kind": "sum"})}  # fmt: skip
    store.records.add_rows(rows, "run")
    publish.publish(store, RUN, FAST, [])
    found = [(row["case"], row["kind"], row["flops"]) for row in read(store.results)]
    assert found == [("a", None, 7), ("b", "sum", None)]
    assert caplog.messages == [f"{RUN}.parquet: cells of another type are left out: kind"]


def test_rows_that_a_run_publishes_later_have_a_part_of_their_own(store):
    for cells in ({"status": "suspect"}, {"status": "measured"}, {"status": "measured", "flops": 1}):
        row = row_with("a", cells)
        row.identity = str(cells)
        publish.publish(store, RUN, FAST, [row])
    parts = store.results
    assert [row["status"] for row in read(parts)] == ["suspect", "measured", "measured"]
    assert sorted(part.name for part in parts.iterdir()) == [f"{RUN}-2.parquet", f"{RUN}-3.parquet", f"{RUN}.parquet"]


def test_no_flipped_bit_of_a_part_goes_unreported(store):
    """By `store check`, which compares with the records; reading alone finds all but some flips in the footer."""
    rows = [
        row_with(
            f"matmul_{i}", {"median_ns": 1.5 * i, "blocks_ns": [0.1 * i, 2.0], "verification": "equal", "threads": i}
        )
        for i in range(40)
    ]
    publish.publish(store, RUN, FAST, rows)
    (part,) = store.results.iterdir()
    right, recorded, draw = part.read_bytes(), store.records.rows_of(part.name), random.Random(1)
    shown = parquet.table(part).to_pylist()
    silent, unreported = 0, 0
    for _ in range(400):
        content = bytearray(right)
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        part.write_bytes(content)
        try:
            found = parquet.table(part)
        except (OSError, ValueError):
            continue
        if found is not None and found.to_pylist() != shown:
            silent += 1
            unreported += parquet.difference(found, recorded) is None
    assert unreported == 0
    assert silent < 0.05 * 400, "page checksums let through what is in the footer only"
    part.write_bytes(right)
    assert parquet.difference(parquet.table(part), recorded) is None
