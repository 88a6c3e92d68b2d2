"""Rows are written once, to Parquet files that are called parts.

The parts of older versions can be read. The error for a damaged part names its file."""

import datetime
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dispatchflow.keys import digest_file
from dispatchflow.results import parquet, publish
from dispatchflow.results.parquet import COLUMNS, read, write_part
from dispatchflow.store.store import Store
from dispatchflow.timing.protocols import PROTOCOLS

VALUES = {
    "int32": 7, "int64": 2**40, "double": 0.1, "string": "é|,\n", "list<int64>": [0, 2**40], "list<double>": [0.1, 1e300],
    "list<string>": ["a", ""], "timestamp": 1_700_000_000.25,
}  # fmt: skip
FULL = {name: VALUES[kind] for name, kind in COLUMNS.items()}
AT = datetime.datetime.fromtimestamp(1_700_000_000.25, datetime.UTC)


def test_row_is_read_back_from_parquet_unchanged(tmp_path):
    write_part(tmp_path / "a.parquet", [FULL, {"recorded_at": 1.8e9, "number": 2**41}])
    first, second = read(tmp_path)
    assert first == FULL | {name: AT for name, kind in COLUMNS.items() if kind == "timestamp"}
    assert {name for name, value in second.items() if value is not None} == {"recorded_at", "number"}


def test_part_has_all_columns_with_their_types_even_when_all_are_absent(tmp_path):
    write_part(tmp_path / "a.parquet", [{"recorded_at": 1.0}])
    schema = pq.read_schema(tmp_path / "a.parquet")
    assert schema.names == list(COLUMNS)
    assert schema.field("median_ns").type == pa.float64()
    assert schema.field("blocks_ns").type == pa.list_(pa.float64())
    assert schema.field("recorded_at").type == pa.timestamp("us", tz="UTC")
    assert schema.metadata[b"dispatchflow.schema_version"] == str(parquet.SCHEMA_VERSION).encode()


def test_writing_leaves_the_part_and_nothing_beside_it(tmp_path):
    write_part(tmp_path / "a.parquet", [FULL])
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_rows_of_all_parts_come_oldest_first(tmp_path):
    write_part(tmp_path / "a.parquet", [{"case": "third", "recorded_at": 3.0}, {"case": "first", "recorded_at": 1.0}])
    write_part(tmp_path / "b.parquet", [{"case": "second", "recorded_at": 2.0}])
    assert [row["case"] for row in read(tmp_path)] == ["first", "second", "third"]


def test_rows_are_sorted_by_number_and_not_by_time_after_those_without_a_number(tmp_path):
    write_part(tmp_path / "z.parquet", [{"case": "old", "recorded_at": 4.0}])
    write_part(tmp_path / "b.parquet", [{"case": "newer", "recorded_at": 1.0, "number": 2}])
    write_part(tmp_path / "a.parquet", [{"case": "newest", "recorded_at": 2.0, "number": 3}])
    write_part(tmp_path / "c.parquet", [{"case": "new", "recorded_at": 3.0, "number": 1}])
    assert [row["case"] for row in read(tmp_path)] == ["old", "new", "newer", "newest"]


def test_column_that_an_older_part_does_not_have_is_none(tmp_path):
    write_part(tmp_path / "old.parquet", [FULL])
    old = pq.read_table(tmp_path / "old.parquet").drop_columns(["score", "tags"])
    pq.write_table(old, tmp_path / "old.parquet")
    write_part(tmp_path / "new.parquet", [FULL | {"recorded_at": 1.8e9}])
    older, newer = read(tmp_path)
    assert (older["score"], older["tags"], older["case"]) == (None, None, FULL["case"])
    assert (newer["score"], newer["tags"]) == (FULL["score"], FULL["tags"])


def test_folder_without_parts_has_no_rows(tmp_path):
    (tmp_path / "half.parquet.123.tmp").write_bytes(b"half")
    assert read(tmp_path) == []


def test_cell_of_the_wrong_type_does_not_fit_and_is_not_converted():
    assert (
        parquet.mistyped_columns({**FULL, **dict.fromkeys(("score", "kind")), "median_ns": 3, "of another time": 1})
        == []
    )
    for kind, value in {"int64": 7.0, "int32": True, "string": 1, "double": "1", "list<int64>": [1.0], "list<string>": "a"}.items():  # fmt: skip
        name = next(name for name in COLUMNS if COLUMNS[name] == kind)
        assert parquet.mistyped_columns({**FULL, name: value}) == [name]
    assert parquet.mistyped_columns({"flops": 2**63}) == ["flops"]
    assert parquet.mistyped_columns({"dispatch_medians_ns": [None, 6.0]}) == []  # the runtime did not report one


FAST = PROTOCOLS["fast"]
PART = "20260101T000000Z-0123abcd.parquet"


def test_a_sound_part_below_a_directory_of_any_bytes_is_read_and_one_cut_short_is_an_error_that_names_it(tmp_path):
    part = tmp_path / os.fsdecode(b"\xff") / PART
    part.parent.mkdir()
    write_part(part, [FULL])
    assert len(read(part.parent)) == 1
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(ValueError, match=f"{PART}: .*magic bytes"):
        read(part.parent)


def test_file_that_is_not_a_part_is_ignored_and_named(tmp_path, caplog):
    write_part(tmp_path / PART, [FULL])
    write_part(tmp_path / "of another machine.parquet", [FULL])
    (tmp_path / "a.parquet").write_bytes(b"PAR1 but no more")
    (tmp_path / "folder.parquet").mkdir()
    pq.write_table(pa.table({"case": ["a"]}), tmp_path / "foreign.parquet")
    assert len(read(tmp_path)) == 2
    assert [record.args[0].name for record in caplog.records] == [
        "a.parquet",
        "folder.parquet",
        "foreign.parquet",
    ]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def test_part_is_written_once_and_never_changed(store):
    store.records.add_rows({"a": ("i1", {"case": "a", "recorded_at": 1.0})}, "run")
    publish.publish(store, "run-1", FAST, [])
    part = store.results / "run-1.parquet"
    before = (digest_file(part), part.stat().st_mtime_ns)
    store.records.add_rows(
        {"a": ("i1", {"case": "changed", "recorded_at": 1.0}), "b": ("i2", {"case": "b", "recorded_at": 2.0})}, "run"
    )
    publish.publish(store, "run-2", FAST, [])
    publish.publish(store, "run-2", FAST, [])
    assert (digest_file(part), part.stat().st_mtime_ns) == before
    assert sorted(path.name for path in store.results.iterdir()) == ["run-1.parquet", "run-2.parquet"]
    assert [row["case"] for row in read(store.results)] == ["a", "b"]


def test_part_that_a_killed_run_did_not_write_is_written_by_the_next(store):
    store.records.add_rows({"a": ("i1", {"case": "a", "recorded_at": 1.0})}, "run")
    store.records.assign_rows("killed.parquet")
    publish.publish(store, "run-1", FAST, [])
    assert [path.name for path in store.results.iterdir()] == ["killed.parquet"]
    assert [row["case"] for row in read(store.results)] == ["a"]
