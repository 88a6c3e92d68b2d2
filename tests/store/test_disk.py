import errno
import os
from types import SimpleNamespace

import pytest

from dispatchflow.errors import DiskFull, StoreError
from dispatchflow.store import disk as disk_space


def disk(free_bytes, files=100, free_files=50):
    return SimpleNamespace(f_bavail=free_bytes // 512, f_frsize=512, f_files=files, f_favail=free_files)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (disk(0), ""),
        (disk((4 << 20) - 512), ""),
        (disk(1 << 40, free_files=0), ""),
        (disk(1 << 40), "module.vmfb: No space left on device"),
        (disk(1 << 40), "write: Disk quota exceeded"),
    ],
)
def test_a_failure_on_a_full_disk_is_reported_as_a_full_disk(status, said, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda path: status)
    with pytest.raises(StoreError, match="the disk is full") as caught:
        disk_space.check(tmp_path, said)
    assert caught.value.facts["store"] == tmp_path
    assert caught.value.hint.startswith("Make room")


@pytest.mark.parametrize("status", [disk(4 << 20), disk(1 << 40, files=0, free_files=0)])
def test_a_failure_on_a_disk_with_free_space_is_not_reported_as_a_full_disk(status, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda path: status)
    disk_space.check(tmp_path, "error: no such device")


def test_a_store_that_a_full_disk_does_not_let_us_create_is_reported_as_a_full_disk(tmp_path):
    store = tmp_path / "no" / "store"
    told = disk_space.unwritable(store, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(store)))
    assert isinstance(told, DiskFull) and told.facts["store"] == store


@pytest.mark.parametrize(
    ("number", "problem"), [(errno.ENOSPC, "the disk is full"), (errno.EACCES, "the system refuses access to a file")]
)
def test_an_error_of_the_system_names_the_file(number, problem):
    error = disk_space.refused(OSError(number, os.strerror(number), "/a/b"))
    assert error.problem == problem
    assert error.facts == {"file": "/a/b", "found": os.strerror(number)}
