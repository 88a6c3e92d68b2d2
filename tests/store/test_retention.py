"""What `doit store clean` removes: the rule on values, then on a real store, alone and beside others."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchflow.errors import StoreError
from dispatchflow.keys import Digest, Key
from dispatchflow.reports import store as report
from dispatchflow.store.records import Record, Records
from dispatchflow.store.retention import UNREFERENCED, Removal, StoredRecord, kinds, made_since, removal, tally
from dispatchflow.store.store import Store


def held(key, at, *digests, stage="compile"):
    return StoredRecord(Key(key), stage, at, {f"out_{i}": Digest(digest) for i, digest in enumerate(digests)})


# --- the rule

SIZES = {Digest(name): 10 for name in "abcdx"}
OLD, MIDDLE, NEW = held("old", 1.0, "a", "b"), held("middle", 2.0, "b", "c"), held("new", 3.0, "d")
RECORDS = [NEW, OLD, MIDDLE]


def gone(found: Removal):
    return sorted(found.keys), sorted(found.objects)


def test_without_a_criterion_only_what_no_record_names_goes():
    assert gone(removal(SIZES, RECORDS)) == ([], ["x"])


def test_what_is_not_kept_goes_with_its_records():
    assert gone(removal(SIZES, RECORDS, keep={Key("new")})) == (["middle", "old"], ["a", "b", "c", "x"])


def test_an_object_that_a_kept_record_names_stays():
    assert gone(removal(SIZES, RECORDS, keep={Key("middle")})) == (["new", "old"], ["a", "d", "x"])


def test_a_record_all_of_whose_objects_stay_stays_too():
    twin = held("twin", 0.0, "c")
    assert gone(removal(SIZES, [*RECORDS, twin], keep={Key("middle")})) == (["new", "old"], ["a", "d", "x"])


@pytest.mark.parametrize(
    ("limit", "keys", "objects"),
    [
        (100, [], "x"),
        (40, [], "x"),  # unreferenced ones go first, and count no more
        (39, ["old"], "ax"),
        (29, ["middle", "old"], "abcx"),  # with b goes the record that names c, and so c
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


def test_a_missing_object_frees_nothing_and_breaks_nothing():
    lost = held("lost", 0.0, "gone", "a")
    assert gone(removal(SIZES, [lost, NEW], limit_bytes=10)) == (["lost"], ["a", "b", "c", "x"])


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
def test_whatever_goes_no_record_is_left_that_names_it(sizes, records, keep, limit):
    found = removal(sizes, records, keep, limit)
    left = {digest: size for digest, size in sizes.items() if digest not in found.objects}
    stay = [record for record in records if record.key not in found.keys]
    named = {digest for record in stay for digest in record.outputs.values()}

    assert len(set(found.objects)) == len(found.objects)
    assert set(found.objects) <= set(sizes)
    assert named & set(found.objects) == set()
    assert set(left) <= named
    assert not {Key(key) for key in keep or ()} & set(found.keys)
    protected = {d for record in records if record.key in (keep or ()) for d in record.outputs.values()}
    if limit is not None:
        assert sum(left.values()) <= limit or set(left) <= protected
    elif keep is not None:
        assert set(left) <= protected
    for record in records:
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


def test_more_than_the_limit_is_said():
    words = report.cleaned({}, 0, (2, 4096), 1024, dry=False, unlimited=False)
    assert words.splitlines()[-1] == "note: what keep= names takes more than 1.00 KiB"


# --- a store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def add(store, key, *contents, stage="compile", at=1.0):
    outputs = {f"out_{i}": store.put_bytes(content) for i, content in enumerate(contents)}
    store.records.add(Record(Key(key), stage, True, None, outputs, at=at))
    return list(outputs.values())


def test_store_lists_its_objects_and_the_records_that_name_some(store):
    one, two = add(store, "a", b"one", b"longer")
    add(store, "verified", stage="verify")

    assert store.objects() == {one: 3, two: 6}
    assert [(record.key, record.stage, record.at) for record in store.records.held()] == [("a", "compile", 1.0)]


def test_what_is_no_object_is_left_alone_and_named(store, caplog):
    (one,) = add(store, "a", b"one")
    objects = store.root / "objects"
    (objects / "zz/below").mkdir(parents=True)
    (objects / "file").write_text("")
    (objects / "ab").mkdir(exist_ok=True)
    (objects / "ab" / ("0" * 30)).mkdir()
    (objects / "ab/short").write_text("")
    assert store.objects() == {one: 3}
    assert len(caplog.records) == 4


def test_records_that_lost_rows_without_a_word_are_known_to_be_unsound(store):
    for number in range(100):
        store.records.add(Record(Key(f"k{number}"), "compile", True, outputs={"vmfb": Digest("d" * 200)}))
    store.records.require_sound()
    store.records.close()
    path = store.root / "records.sqlite"
    content, silent = path.read_bytes(), 0
    for page in range(4096, len(content), 4096):
        path.write_bytes(content[: page + 2048] + bytes(2048) + content[page + 4096 :])
        records = Records(path)
        try:
            lost = len(records.held()) < 100
        except StoreError:
            continue
        if lost:
            silent += 1
            with pytest.raises(StoreError, match="the records cannot be read"):
                records.require_sound()
        records.close()
    assert silent


def test_discarded_records_and_objects_are_gone_and_no_others(store):
    one, shared = add(store, "a", b"one", b"shared")
    add(store, "b", b"shared")
    add(store, "verified", stage="verify")

    store.discard([Key("a")], [one])

    assert store.records.get(Key("a")) is None
    assert store.records.get(Key("b")).outputs == {"out_0": shared}
    assert store.records.get(Key("verified")).ok
    assert store.objects() == {shared: 6}
    store.path(shared).unlink()
    store.records.drop_output(shared)
    assert store.records.get(Key("b")) is None


def test_who_is_stopped_while_removing_leaves_no_record_without_its_object(store, monkeypatch):
    (one,) = add(store, "a", b"one")

    def stopped(path, **unused):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "unlink", stopped)
        store.discard([Key("a")], [one])

    assert store.records.held() == []
    assert removal(store.objects(), store.records.held()).objects == (one,)


def test_an_outcome_that_was_replaced_leaves_its_object_to_nobody(store):
    (before,) = add(store, "a", b"before")
    (after,) = add(store, "a", b"after")

    found = removal(store.objects(), store.records.held())

    assert (found.keys, found.objects) == ((), (before,))
    store.discard(found.keys, found.objects)
    assert store.checked(after)


# --- beside others

MAKER = """
import sys
from pathlib import Path
from dispatchflow.store.store import Store
store = Store(Path(sys.argv[1]))
store.users.join(lambda process: print(f"waits for {process}", flush=True))
print(store.put_bytes(b"not recorded yet"), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start(store):
    """Start another process, that publishes an object and does not record it; it ends when its stdin does."""
    started = []

    def make():
        words = [sys.executable, "-c", MAKER, str(store.root)]
        started.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield make
    for process in started:
        process.kill()
        process.wait(20)


def cleaned(store, told):
    with store.users.alone(told.append):
        found = removal(store.objects(), store.records.held())
        store.discard(found.keys, found.objects)


@pytest.mark.parametrize("end", ["ends", "is killed"])
def test_who_cleans_waits_for_who_makes_and_says_for_whom(store, start, end):
    maker = start()
    digest = maker.stdout.readline().strip()
    told = []
    thread = threading.Thread(target=cleaned, args=(store, told), daemon=True)
    thread.start()
    time.sleep(0.3)

    assert told == [maker.pid]
    assert list(store.objects()) == [digest]
    if end == "ends":
        maker.stdin.close()
    else:
        maker.kill()
    thread.join(20)
    assert not thread.is_alive()
    assert store.objects() == {}


def test_who_makes_waits_for_who_cleans(store, start):
    with store.users.alone(lambda process: pytest.fail("nobody is there")):
        maker = start()
        assert maker.stdout.readline() == "waits for 0\n"
        time.sleep(0.2)
        assert store.objects() == {}
    digest = maker.stdout.readline().strip()
    assert list(store.objects()) == [digest]


def test_makers_are_there_together(store, start):
    start().stdout.readline()
    store.users.join(lambda process: pytest.fail("they do not wait"))
    Store(store.root).users.join(lambda process: pytest.fail("nor within one process"))
