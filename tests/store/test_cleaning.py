"""Unneeded records and objects (stored files) are removed when no other process uses the store."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dispatchflow.errors import StoreError
from dispatchflow.keys import Digest, Key
from dispatchflow.store.entries import Record
from dispatchflow.store.records import Records
from dispatchflow.store.retention import removal
from dispatchflow.store.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def add(store, key, *contents, stage="compile", at=1.0):
    outputs = {f"out_{i}": store.put_bytes(content) for i, content in enumerate(contents)}
    store.records.add(Record(Key(key), stage, True, None, outputs, at=at))
    return list(outputs.values())


def test_store_lists_its_objects_and_the_records_that_name_objects(store):
    one, two = add(store, "a", b"one", b"longer")
    add(store, "verified", stage="verify")

    assert store.objects() == {one: 3, two: 6}
    assert [(record.key, record.stage, record.at) for record in store.records.held()] == [("a", "compile", 1.0)]


def test_a_file_that_is_not_an_object_is_reported_and_left_alone(store, caplog):
    (one,) = add(store, "a", b"one")
    objects = store.root / "objects"
    (objects / "zz/below").mkdir(parents=True)
    (objects / "file").write_text("")
    (objects / "ab").mkdir(exist_ok=True)
    (objects / "ab" / ("0" * 30)).mkdir()
    (objects / "ab/short").write_text("")
    assert store.objects() == {one: 3}
    assert len(caplog.records) == 4


def test_records_that_silently_lost_rows_are_reported_as_unsound(store):
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


def test_only_discarded_records_and_objects_are_removed(store):
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


def test_an_interrupted_removal_leaves_no_record_without_its_object(store, monkeypatch):
    (one,) = add(store, "a", b"one")

    def stopped(path, **unused):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "unlink", stopped)
        store.discard([Key("a")], [one])

    assert store.records.held() == []
    assert removal(store.objects(), store.records.held()).objects == (one,)


def test_object_of_a_replaced_record_is_unreferenced(store):
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
    """Yield a function that starts a process. The process stores an object that no record names.

    The process ends when its standard input is closed."""
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
def test_a_clean_waits_for_runs_and_reports_which(store, start, end):
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


def test_a_run_waits_for_a_clean(store, start):
    with store.users.alone(lambda process: pytest.fail("nobody is there")):
        maker = start()
        assert maker.stdout.readline() == "waits for 0\n"
        time.sleep(0.2)
        assert store.objects() == {}
    digest = maker.stdout.readline().strip()
    assert list(store.objects()) == [digest]


def test_runs_share_the_store(store, start):
    start().stdout.readline()
    store.users.join(lambda process: pytest.fail("they do not wait"))
    Store(store.root).users.join(lambda process: pytest.fail("nor within one process"))
