"""`Records` keeps what is written to it, even if several connections write at once."""

import sqlite3
import threading

import pytest
from msgspec.structs import replace

from dispatchflow.errors import StoreError
from dispatchflow.keys import Digest, Key
from dispatchflow.store.entries import Record
from dispatchflow.store.records import Records

RECORD = Record(
    Key("k"), "compile", True, None, {"vmfb": Digest("d1"), "log": Digest("d2")}, {"score": 0.5, "list": [1, None]},
    {"flags": ["-a"], "environment": {}}, 1.5, "run", 1e9,
)  # fmt: skip


def test_record_is_read_as_it_was_written(records):
    records.add(RECORD)
    assert records.get(RECORD.key) == RECORD
    assert records.get(Key("other")) is None


def test_newest_record_of_a_key_counts(records):
    records.add(replace(RECORD, ok=False, reason="no"))
    records.add(RECORD)
    assert records.get(RECORD.key) == RECORD


def test_records_are_there_for_the_next_invocation(tmp_path):
    Records(tmp_path / "r").add(RECORD)
    assert Records(tmp_path / "r").get(RECORD.key) == RECORD


def test_latest_keys_of_a_name_are_kept_by_stage(records):
    records.set_latest("name", {"emit": Key("1"), "compile": Key("2")}, {})
    records.set_latest("name", {"compile": Key("3")}, {})
    assert records.latest("name") == {"emit": "1", "compile": "3"}
    assert records.latest("other") == {}


def test_costs_are_means_over_what_succeeded(records):
    for key, cost, ok in (("a", 1.0, True), ("b", 3.0, True), ("c", 99.0, False)):
        records.add(Record(Key(key), "compile", ok, cost_s=cost))
    for protocol, cost in (("fast-2", 0.5), ("std-2", 2.0), ("std-2", 4.0)):
        number = records.begin_measurement(Key("k"), {"protocol": protocol}, {}, "run")
        records.add_block(number, 0, 10.0, None, cost)
    assert records.costs("std-2") == {"compile": 2.0, "profile": 3.0}
    assert records.costs("thorough-2") == {"compile": 2.0}


def test_measurement_is_complete_only_when_it_was_ended(records):
    first = records.begin_measurement(Key("k"), {"code": "c"}, {"load": 1}, "run")
    records.add_block(first, 0, 10.0, None, 0.5)
    assert records.measurement(Key("k")) is None
    records.add_block(first, 1, 20.0, 15.0, 0.5)
    records.end_measurement(first, "measured", None, {"load": 2})
    found = records.measurement(Key("k"))
    assert (found.blocks_ns, found.dispatch_ns, found.cost_s) == ((10.0, 20.0), (15.0,), 1.0)
    assert (found.status, found.conditions, found.ingredients) == ("measured", {"load": 2}, {"code": "c"})
    second = records.begin_measurement(Key("k"), {}, {}, "run")
    records.add_block(second, 0, 99.0, None, 0.5)
    assert records.measurement(Key("k")) == found
    records.end_measurement(second, "noisy", "loud", {})
    assert (records.measurement(Key("k")).blocks_ns, records.measurement(Key("k")).reason) == ((99.0,), "loud")


@pytest.mark.parametrize(("blocks_ns", "median_ns"), [((90.0, 10.0, 30.0), 30.0), ((40.0, 10.0, 90.0, 20.0), 30.0)])
def test_median_is_that_of_the_sorted_blocks(records, blocks_ns, median_ns):
    number = records.begin_measurement(Key("k"), {}, {"session": {"factor": 1.0}}, "run")
    for index, ns in enumerate(blocks_ns):
        records.add_block(number, index, ns, None, 0.5)
    records.end_measurement(number, "measured", None, {"session": {"factor": 1.0}})
    assert records.measurement(Key("k")).median_ns == median_ns
    assert [*records.medians_with_sessions()] == [("k", median_ns, {"factor": 1.0})]


def test_measurements_come_newest_first_though_the_clock_was_set_back_between(records, monkeypatch):
    for number, clock in enumerate((2e9, 1e9)):
        monkeypatch.setattr("time.time", lambda clock=clock: clock)
        taken = records.begin_measurement(Key("k"), {}, {}, f"run-{number}")
        records.end_measurement(taken, "measured", None, {})
    assert [(found.run, found.at) for found in records.measurements(Key("k"))] == [("run-1", 1e9), ("run-0", 2e9)]
    newest = records.measurement(Key("k"))
    assert newest is not None and newest.run == "run-1"


def test_rows_belong_to_the_part_that_they_were_assigned_to_first(records):
    assert records.add_rows({"b": ("i2", {"case": "b"}), "a": ("i1", {"case": "a"})}, "run") == 2
    assert records.assign_rows("1.parquet") == 2
    assert records.add_rows({"a": ("i1", {"case": "changed"}), "c": ("i3", {"case": "c", "score": None})}, "run") == 1
    assert records.assign_rows("2.parquet") == 1
    assert records.assign_rows("3.parquet") == 0
    assert sorted(records.parts()) == ["1.parquet", "2.parquet"]
    assert [row["case"] for row in records.rows_of("1.parquet")] == ["b", "a"]
    (row,) = records.rows_of("2.parquet")
    assert {**row, "number": 0} == {"case": "c", "score": None, "number": 0}


def test_rows_are_numbered_in_the_order_in_which_they_were_added_through_all_parts(records):
    for name in "abc":
        records.add_rows({name: (name, {})}, "run")
        records.assign_rows(name)
    a, b, c = (records.rows_of(name)[0]["number"] for name in "abc")
    assert a + 2 == b + 1 == c


def test_rows_of_a_new_database_follow_those_of_the_old_one(tmp_path, monkeypatch):
    numbers = []
    for path, clock in (("a", 1e9), ("b", 1e9 + 1)):
        monkeypatch.setattr("dispatchflow.store.records.time.time", lambda clock=clock: clock)
        records = Records(tmp_path / path)
        records.add_rows({f"{i}": (f"{i}", {}) for i in range(1000)}, "run")
        records.assign_rows("part")
        numbers += [row["number"] for row in records.rows_of("part")]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("asked", [3, 2000])
def test_identity_of_a_name_s_newest_row_is_known(records, asked):
    records.add_rows({f"n{i}": (f"i{i}", {}) for i in range(2)}, "run")
    assert records.newest_identities(f"n{i}" for i in range(asked)) == {"n0": "i0", "n1": "i1"}
    assert records.newest_identities([]) == {}


def test_returning_to_an_earlier_state_adds_a_row_and_staying_there_does_not(records):
    said = [records.add_rows({"case": (state, {"state": state})}, f"run {i}") for i, state in enumerate("abaaab")]
    assert said == [1, 1, 1, 0, 0, 1]
    records.assign_rows("part")
    assert [row["state"] for row in records.rows_of("part")] == ["a", "b", "a", "b"]


def test_remembered_facts_are_replaced(records):
    records.remember("host", "a")
    records.remember("host", "b")
    assert (records.remembered("host"), records.remembered("other")) == ("b", None)


def test_connections_open_and_write_at_once_and_see_each_other(tmp_path):
    Records(tmp_path / "records.sqlite")
    barrier, failures = threading.Barrier(4), []

    def work(name):
        try:
            barrier.wait()
            own = Records(tmp_path / "records.sqlite")
            for i in range(20):
                own.add(replace(RECORD, key=Key(f"{name}{i}")))
                own.add_rows({f"{name}{i}": (f"{name}{i}", {})}, "run")
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    found = Records(tmp_path / "records.sqlite")
    assert all(found.get(Key(f"{name}{i}")) for name in "abcd" for i in range(20))
    assert found.assign_rows("part") == 80


def test_opening_a_new_file_waits_for_another_that_opens_it(tmp_path):
    other = sqlite3.connect(tmp_path / "r", isolation_level=None, check_same_thread=False)
    other.execute("begin immediate")
    release = threading.Timer(0.1, other.execute, ["rollback"])
    release.start()
    try:
        Records(tmp_path / "r")
    finally:
        release.join()
        other.close()


def test_one_connection_serves_many_threads(records):
    threads = [
        threading.Thread(target=lambda n=n: [records.add(replace(RECORD, key=Key(f"{n}-{i}"))) for i in range(20)])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(records.get(Key(f"{n}-{i}")) for n in range(4) for i in range(20))


def test_transaction_that_fails_leaves_nothing(records):
    with pytest.raises(sqlite3.ProgrammingError):
        records.add(replace(RECORD, outputs={"a": {"no": "text"}}))
    assert records.get(RECORD.key) is None
    records.add(RECORD)
    assert records.get(RECORD.key) == RECORD


def test_file_that_is_not_a_database_is_a_store_error_that_names_it(tmp_path):
    (tmp_path / "records.sqlite").write_bytes(b"no database " * 100)
    with pytest.raises(StoreError, match="cannot be read") as caught:
        Records(tmp_path / "records.sqlite")
    assert caught.value.facts["file"] == tmp_path / "records.sqlite"


def test_directory_in_place_of_the_records_is_an_error_with_a_hint(tmp_path):
    with pytest.raises(StoreError, match="cannot be read") as caught:
        Records(tmp_path)
    assert "Move the file away" in caught.value.hint


def test_store_of_another_version_is_refused(tmp_path):
    Records(tmp_path / "r")
    with sqlite3.connect(tmp_path / "r") as database:
        database.execute("pragma user_version = 99")
    with pytest.raises(StoreError, match="another version"):
        Records(tmp_path / "r")
