"""All recorded rows are written to Parquet files. A file that was changed afterwards is reported."""

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


def test_row_that_does_not_fit_its_columns_is_reported_and_written_once_it_fits(store):
    good = row_with("a", {"flops": 7})
    told = publish.publish(store, RUN, FAST, [row_with("b", {"flops": 1.5}), good, row_with("c", {"flops": 2.0})])
    assert str(told).startswith(
        "a row does not fit its columns:\n  case    b\n  column  flops, int64\n  value   1.5, float\n"
        "  rows    2 not written; the others are\n"
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
    assert caplog.messages == [f"{RUN}.parquet: cells of the wrong type are left out: kind"]


def test_rows_that_a_run_publishes_later_have_a_part_of_their_own(store):
    for cells in ({"status": "suspect"}, {"status": "measured"}, {"status": "measured", "flops": 1}):
        row = row_with("a", cells)
        row.identity = str(cells)
        publish.publish(store, RUN, FAST, [row])
    parts = store.results
    assert [row["status"] for row in read(parts)] == ["suspect", "measured", "measured"]
    assert sorted(part.name for part in parts.iterdir()) == [f"{RUN}-2.parquet", f"{RUN}-3.parquet", f"{RUN}.parquet"]


@pytest.fixture
def part(store):
    """Publish forty rows and return the path of their Parquet file, whose bytes are the same each time."""
    store.records.remember("first_row", str(2**50))  # otherwise taken from the clock
    rows = [
        row_with(
            f"matmul_{i}", {"median_ns": 1.5 * i, "blocks_ns": [0.1 * i, 2.0], "verification": "equal", "threads": i}
        )
        for i in range(40)
    ]
    publish.publish(store, RUN, FAST, rows)
    (part,) = store.results.iterdir()
    return part


def flipped(content, at, bit):
    changed = bytearray(content)
    changed[at] ^= 1 << bit
    return bytes(changed)


def test_no_flipped_bit_of_a_part_goes_unreported(store, part):
    # `store check` also finds flips that reading a part does not find, which are in the part's footer.
    right, recorded, draw = part.read_bytes(), store.records.rows_of(part.name), random.Random(1)
    shown = parquet.table(part).to_pylist()
    silent, unreported, unlike_records = 0, 0, 0
    for _ in range(400):
        part.write_bytes(flipped(right, draw.randrange(len(right)), draw.randrange(8)))
        try:
            found = parquet.table(part)
        except (OSError, ValueError):
            continue
        unreported += publish.damage(store, part, found) is None
        if found.to_pylist() != shown:
            silent += 1
            unlike_records += parquet.difference(found, recorded) is not None
    assert unreported == 0
    assert unlike_records == silent < 0.05 * 400, "page checksums let through what is in the footer only"
    part.write_bytes(right)
    assert publish.damage(store, part, parquet.table(part)) is None


def test_a_column_that_a_flipped_bit_gives_the_name_of_another_is_reported(store, part):
    # The two columns are null in all rows, so only their names show the change.
    right, name = part.read_bytes(), b"\x18\x01b"  # in Thrift's compact protocol: a string of one byte
    assert ord("b") ^ ord("c") == 1
    part.write_bytes(flipped(right, right.index(name) + 2, 0))
    found = parquet.table(part)
    assert (found.column_names.count("b"), found.column_names.count("c")) == (0, 2)
    assert parquet.difference(found, store.records.rows_of(part.name)) == "it has two columns 'c'"


def test_part_with_equal_rows_and_other_bytes_is_reported(store, part):
    # The flipped bit is in the footer's statistics, by which readers skip rows.
    right = part.read_bytes()
    shown = parquet.table(part)
    at = right.rindex(b"matmul_9")
    part.write_bytes(flipped(right, at, 0))
    found = parquet.table(part)
    assert found.equals(shown)
    assert parquet.difference(found, store.records.rows_of(part.name)) is None
    assert (
        publish.damage(store, part, found) == "its bytes differ from those that were written, although its rows do not"
    )
