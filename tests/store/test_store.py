import errno
import os
import threading
from pathlib import Path

import pytest

from dispatchflow.errors import StoreError, UnreadableObject
from dispatchflow.keys import Key, digest_of
from dispatchflow.store import disk
from dispatchflow.store.entries import Record
from dispatchflow.store.store import DamagedObject, Store, filesystem


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def test_object_is_found_by_the_digest_of_its_bytes(store):
    digest = store.put_bytes(b"content")
    assert digest == digest_of(b"content")
    assert store.checked(digest).read_bytes() == b"content"
    assert store.put_bytes(b"content") == digest


def test_object_is_read_only_and_nothing_is_left_beside_it(store):
    path = store.path(store.put_bytes(b"content"))
    assert path.stat().st_mode & 0o777 == 0o444
    assert [p for p in store.root.glob("objects/*/*")] == [path]
    assert list((store.root / "tmp").iterdir()) == []


def test_file_is_moved_into_the_store(store):
    with store.scratch() as scratch:
        (scratch / "made").write_bytes(b"content")
        digest = store.put_file(scratch / "made")
        assert not (scratch / "made").exists()
    assert not scratch.exists()
    assert store.checked(digest).read_bytes() == b"content"


def damaged(path):
    path.chmod(0o644)
    path.write_bytes(b"CONTENT")


def truncated(path):
    path.chmod(0o644)
    os.truncate(path, 3)


@pytest.mark.parametrize("harm", [damaged, truncated, os.unlink])
def test_damaged_object_is_dropped_with_every_record_that_names_it(store, harm):
    digest, other = store.put_bytes(b"content"), store.put_bytes(b"other")
    for key, outputs in {"a": {"x": digest, "y": other}, "b": {"z": digest}, "c": {"y": other}}.items():
        store.records.add(Record(Key(key), "compile", True, outputs=outputs))
    harm(store.path(digest))
    with pytest.raises(DamagedObject, match=digest):
        store.checked(digest)
    assert not store.path(digest).exists()
    assert [key for key in "abc" if store.records.get(Key(key))] == ["c"]
    assert store.checked(other)
    assert store.put_bytes(b"content") == digest
    assert store.checked(digest).read_bytes() == b"content"


def put(store, content):
    with store.scratch() as scratch:
        (scratch / "made").write_bytes(content)
        return store.put_file(scratch / "made")


@pytest.mark.parametrize("use", [Store.put_bytes, put, lambda store, content: store.checked(digest_of(content))])
@pytest.mark.parametrize(
    ("lay", "found"),
    [
        (Path.mkdir, "it is not a regular file"),
        (os.mkfifo, "it is not a regular file"),
        (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
    ],
)
def test_an_object_path_that_is_not_a_readable_file_is_an_error_and_left_alone(store, lay, found, use):
    store.records.add(Record(Key("a"), "compile", True, outputs={"x": digest_of(b"content")}))
    path = store.path(digest_of(b"content"))
    path.parent.mkdir()
    lay(path)
    with pytest.raises(UnreadableObject, match="cannot be read") as caught:
        use(store, b"content")
    assert caught.value.facts == {"file": path, "found": found}
    assert "Move it away" in caught.value.hint
    assert os.path.lexists(path)
    assert store.records.get(Key("a"))


def test_lock_has_one_holder_at_a_time(store):
    order = []

    def second():
        with Store(store.root).lock(Key("abc")):
            order.append("second")

    with store.lock(Key("abc")):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


MOUNTS = rb"""
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/vdb /home/local xfs rw 0 0
tmpfs /mnt tmpfs rw 0 0
server:/data /mnt/my\040data\134x nfs rw 0 0
user@host: /mnt/b\303\266se\377 fuse.sshfs rw 0 0
overlay /var overlay rw 0 0
//server/share /var cifs rw 0 0
server:/all /over nfs rw 0 0
/dev/vdc /over ext4 rw 0 0
/dev/vda /home/bound ext4 rw 0 0
""".strip()


@pytest.mark.parametrize(
    ("path", "mount", "kind"),
    [
        ("/srv/store", "/", "ext4"),
        ("/home/me/.dispatchflow", "/home", "nfs4"),
        ("/homely/store", "/", "ext4"),
        ("/home/local/store", "/home/local", "xfs"),
        ("/home/bound/store", "/home/bound", "ext4"),
        ("/mnt/my data\\x/store", "/mnt/my data\\x", "nfs"),
        ("/mnt/b\u00f6se\udcff/store", "/mnt/b\u00f6se\udcff", "fuse.sshfs"),
        ("/var/store", "/var", "cifs"),
        ("/over", "/over", "ext4"),
    ],
)
def test_file_system_of_a_path_is_that_of_the_longest_and_last_mount(path, mount, kind):
    assert filesystem(Path(path), MOUNTS) == (Path(mount), kind)


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "9p"])
def test_store_on_a_network_file_system_is_refused_before_anything_is_written(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("dispatchflow.store.store.filesystem", lambda path, mounts: (tmp_path, kind))
    with pytest.raises(StoreError, match="network file system") as caught:
        Store(tmp_path / "store")
    assert caught.value.facts["mount"] == f"{tmp_path} ({kind})"
    assert "local disk" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_damaged_object_is_replaced_when_its_bytes_are_put_again(store):
    digest = store.put_bytes(b"content")
    damaged(store.path(digest))
    assert store.put_bytes(b"content") == digest
    assert store.checked(digest)


def test_place_that_cannot_be_written_is_a_store_error_with_a_hint(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written") as caught:
        Store(tmp_path / "file")
    assert "DISPATCHFLOW_STORE" in caught.value.hint


WAYS_OUT = {
    errno.EXDEV: "link the whole store",
    errno.EISDIR: "move it away",
    errno.EIO: "dmesg",
    errno.EACCES: "Make it writable",
    errno.ENOSPC: "Make room",
}


@pytest.mark.parametrize("code", WAYS_OUT)
def test_each_error_of_the_system_has_its_hint(code, store):
    with pytest.raises(StoreError, match="the store cannot be written") as caught, store.writing():
        raise OSError(code, os.strerror(code), "a file")
    assert WAYS_OUT[code] in caught.value.hint
    assert caught.value.facts["found"] == os.strerror(code)


def test_link_that_leads_nowhere_is_named(tmp_path):
    (tmp_path / "store").symlink_to(tmp_path / "nothing")
    with pytest.raises(StoreError) as caught:
        Store(tmp_path / "store")
    assert f"a link to {tmp_path / 'nothing'}, which does not exist" in str(caught.value)


def test_path_that_sqlite_does_not_take_is_named(tmp_path):
    folder = tmp_path / "/".join(["x" * 100] * 5)
    folder.mkdir(parents=True)
    with pytest.raises(StoreError, match="the records cannot be written") as caught:
        Store(folder).records.parts()
    assert "too long" in caught.value.hint


def test_disk_without_inodes_is_reported_as_that():
    status = os.statvfs_result((4096, 4096, 1000, 1000, 1000, 100, 0, 0, 0, 255))
    assert disk._free(status) == "3.91 MiB, but no inode: too many files"
