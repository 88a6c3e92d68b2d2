"""`doit store clean` chooses the records and objects (stored files) to remove.

These tests use no files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchflow.keys import Digest, Key
from dispatchflow.reports import store as report
from dispatchflow.store.retention import UNREFERENCED, Removal, StoredRecord, kinds, made_since, removal, tally


def held(key, at, *digests, stage="compile"):
    return StoredRecord(Key(key), stage, at, {f"out_{i}": Digest(digest) for i, digest in enumerate(digests)})


SIZES = {Digest(name): 10 for name in "abcdx"}
OLD, MIDDLE, NEW = held("old", 1.0, "a", "b"), held("middle", 2.0, "b", "c"), held("new", 3.0, "d")
RECORDS = [NEW, OLD, MIDDLE]


def gone(found: Removal):
    return sorted(found.keys), sorted(found.objects)


def test_without_a_criterion_only_unreferenced_objects_are_removed():
    assert gone(removal(SIZES, RECORDS)) == ([], ["x"])


def test_objects_that_are_not_kept_are_removed_with_their_records():
    assert gone(removal(SIZES, RECORDS, keep={Key("new")})) == (["middle", "old"], ["a", "b", "c", "x"])


def test_an_object_that_a_kept_record_names_stays():
    assert gone(removal(SIZES, RECORDS, keep={Key("middle")})) == (["new", "old"], ["a", "d", "x"])


def test_a_record_stays_if_all_of_its_objects_stay():
    twin = held("twin", 0.0, "c")
    assert gone(removal(SIZES, [*RECORDS, twin], keep={Key("middle")})) == (["new", "old"], ["a", "d", "x"])


@pytest.mark.parametrize(
    ("limit", "keys", "objects"),
    [
        (100, [], "x"),
        (40, [], "x"),  # unreferenced objects go first and no longer count
        (39, ["old"], "ax"),
        (29, ["middle", "old"], "abcx"),  # removing b removes the record of middle, and with it c
        (10, ["middle", "old"], "abcx"),
        (9, ["middle", "new", "old"], "abcdx"),
        (0, ["middle", "new", "old"], "abcdx"),
    ],
)
def test_a_limit_takes_the_oldest_and_no_more_than_it_must(limit, keys, objects):
    assert gone(removal(SIZES, RECORDS, limit_bytes=limit)) == (keys, list(objects))


def test_a_limit_never_takes_what_is_kept():
    assert gone(removal(SIZES, RECORDS, keep={Key("old")}, limit_bytes=0)) == (["middle", "new"], ["c", "d", "x"])
    assert gone(removal(SIZES, RECORDS, keep={Key("old")}, limit_bytes=40)) == ([], ["x"])


@pytest.mark.parametrize("criterion", [{}, {"keep": {Key("lost")}}, {"limit_bytes": 100}])
def test_a_record_that_refers_to_a_missing_object_is_removed(criterion):
    lost = held("lost", 9.0, "gone", "a")
    keys, objects = gone(removal(SIZES, [lost, NEW], **criterion))
    assert "lost" in keys
    assert {"a", "b", "c", "x"} <= set(objects)


objects = st.sampled_from("abcdefgh")
some_records = st.lists(
    st.builds(
        lambda at, digests: (at, digests), st.integers(0, 5).map(float), st.lists(objects, min_size=1, max_size=3)
    ),
    max_size=8,
).map(lambda found: [held(f"k{i}", at, *digests) for i, (at, digests) in enumerate(found)])


@given(
    sizes=st.dictionaries(objects, st.integers(0, 9)),
    records=some_records,
    keep=st.none() | st.sets(st.sampled_from([f"k{i}" for i in range(8)])),
    limit=st.none() | st.integers(0, 60),
)
def test_no_record_that_refers_to_a_removed_or_missing_object_is_left(sizes, records, keep, limit):
    found = removal(sizes, records, keep, limit)
    left = {digest: size for digest, size in sizes.items() if digest not in found.objects}
    complete = [record for record in records if set(record.outputs.values()) <= set(sizes)]
    kept = [record for record in complete if record.key in (keep or ())]
    stay = [record for record in records if record.key not in found.keys]
    named = {digest for record in stay for digest in record.outputs.values()}

    assert len(set(found.objects)) == len(found.objects)
    assert set(found.objects) <= set(sizes)
    assert named <= set(left)
    assert set(left) <= named
    assert not {record.key for record in kept} & set(found.keys)
    protected = {digest for record in kept for digest in record.outputs.values()}
    if limit is not None:
        assert sum(left.values()) <= limit or set(left) <= protected
    elif keep is not None:
        assert set(left) <= protected
    for record in complete:
        if record.key in found.keys:
            assert set(record.outputs.values()) & set(found.objects)


def test_days_count_from_when_a_record_was_made():
    day = 86400.0
    assert made_since(RECORDS, 0, 3.0) == {"new"}
    assert made_since([held("a", 0.0), held("b", 1.5 * day), held("c", 9 * day)], 1, 2 * day) == {"b", "c"}


def test_objects_are_counted_once_by_kind_and_unreferenced_ones_come_last():
    records = [
        StoredRecord(Key("1"), "emit", 0.0, {"module": Digest("a")}),
        StoredRecord(Key("2"), "compile", 0.0, {"vmfb": Digest("b"), "log": Digest("c")}),
        StoredRecord(Key("3"), "verify", 0.0, {"got_exact": Digest("d"), "log": Digest("c")}),
        StoredRecord(Key("4"), "expected", 0.0, {"reference": Digest("e")}),
    ]
    sizes = {Digest(name): number for number, name in enumerate("abcdex", 1)}
    found = tally(sizes, kinds(sizes, records))

    assert found == {
        "expected results": (1, 5), "wrong results": (1, 4), "logs": (1, 3), "compiled modules": (1, 2),
        "modules": (1, 1), UNREFERENCED: (1, 6),
    }  # fmt: skip
    assert list(found)[-1] == UNREFERENCED


def test_overview_ends_in_the_total_and_the_bytes_of_a_case():
    text = report.overview({"modules": (2, 2048)}, {"records": (1, 1024), "toolchains": (1, 1 << 20)}, 3, 3072)

    assert text.splitlines()[1].split() == ["modules", "2", "2.00", "KiB"]
    assert text.splitlines()[-1] == "1.00 MiB in all; 3 cases, 1.00 KiB each without toolchains"


def test_more_than_the_limit_is_reported():
    words = report.cleaned({}, 0, (2, 4096), 1024, dry=False, unlimited=False)
    assert words.splitlines()[-1] == "note: what keep= names takes more than 1.00 KiB"
