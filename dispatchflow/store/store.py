"""Content-addressed objects and records of actions. Only whole ones: `kill -9` loses at most the actions in flight.

.dispatchflow/
  objects/ab/cdef…   files named by their digest, written beside, synced, renamed; read-only
  records.sqlite     WAL; written after the objects it names, one transaction each (see records.py)
  results/*.parquet  immutable parts, derived from the records (see results/parquet.py)
  answers/           what idle invocations said (see project/replay.py)
  locks/  tmp/
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from stat import S_ISREG
from typing import TypeVar

from dispatchflow.errors import DiskFull, StoreError, UnreadableObject
from dispatchflow.keys import Digest, Key, digest_file, digest_of, is_digest
from dispatchflow.store import disk, holders, scratch
from dispatchflow.store.locks import Claims, MachineLock, Users, locked, others
from dispatchflow.store.records import Records

# SQLite's WAL needs shared memory, and flock a kernel of one machine.
_NETWORK = {
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "vboxsf",
    "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.glusterfs", "fuse.ceph", "fuse.juicefs",
}  # fmt: skip


_FOLDER = re.compile(r"[0-9a-f]{2}")
T = TypeVar("T")
_log = logging.getLogger(__name__)


class DamagedObject(Exception):
    """An object's bytes are not those of its digest; it was dropped, with the records that led to it."""


class Store:
    """Raises StoreError on opening: a network file system, or a place that cannot be written."""

    def __init__(self, root: Path) -> None:
        self.root = root = root.absolute()
        if ".." in root.parts:  # what `..` of a symbolic link is, only the system knows; links to here must be right
            self.root = root = root.resolve()
        try:
            with self.writing():
                _refuse_network(root)
                for folder in ("objects", "locks", "tmp", "results"):
                    (root / folder).mkdir(parents=True, exist_ok=True)
                scratch.sweep(root / "tmp")
                # SQLite would only say that its own file cannot be written. Who looks or cleans needs no room.
                with suppress(DiskFull), self.scratch():
                    pass
                self.records = Records(root / "records.sqlite")
        except DiskFull as full:  # a store that is there opens without room: this one has nothing to be removed
            raise DiskFull(full.problem, full.facts, disk.TO_BEGIN) from full

    @property
    def results(self) -> Path:
        return self.root / "results"

    def path(self, digest: Digest) -> Path:
        """Where the object is, or would be."""
        return self.root / "objects" / digest[:2] / digest[2:]

    def checked(self, digest: Digest) -> Path:
        """The object's path, after its bytes were compared with its name.

        Raises:
            DamagedObject: they differ, or it is missing; it and every record that names it are gone now.
            UnreadableObject: that cannot be known.
        """
        if self._found(digest) == digest:
            return self.path(digest)
        self._unlink([digest])
        self.records.drop_output(digest)
        raise DamagedObject(digest)

    def _found(self, digest: Digest) -> Digest | None:
        """The digest of what lies in the object's place; None where nothing does.

        Raises:
            UnreadableObject: a directory does, or a pipe, which is not opened: that waits for its writer; or the system
                refuses.
        """
        path = self.path(digest)
        try:
            if S_ISREG(path.stat().st_mode):
                return digest_file(path)
            found = "it is no regular file"
        except FileNotFoundError:
            return None
        except OSError as error:
            found = error.strerror or str(error)
        hint = "Move it away, and run again: it is made anew."
        raise UnreadableObject("an object cannot be read", {"file": path, "found": found}, hint)

    def objects(self) -> dict[Digest, int]:
        """Every object → its bytes. What else lies there is told, and is nobody's to remove."""
        found = {}
        for folder in (self.root / "objects").iterdir():
            if not _FOLDER.fullmatch(folder.name) or not folder.is_dir():
                _log.warning("%s is no object: left alone", folder)
                continue
            with os.scandir(folder) as entries:
                for entry in entries:
                    if not is_digest(folder.name + entry.name) or not entry.is_file(follow_symlinks=False):
                        _log.warning("%s is no object: left alone", entry.path)
                        continue
                    with suppress(FileNotFoundError):  # damaged, and dropped by somebody just now
                        found[Digest(folder.name + entry.name)] = entry.stat().st_size
        return found

    def discard(self, keys: Collection[Key], digests: Collection[Digest]) -> None:
        """Records, then objects: no record should name a missing one. Only for who is alone, see `users`."""
        try:
            self.records.forget(keys, digests)
        except DiskFull:  # even to forget takes room. Killed here, who uses a missing object makes it anew
            self._unlink(digests)
            self.records.forget(keys, digests)
        self._unlink(digests)

    def _unlink(self, digests: Collection[Digest]) -> None:
        with self.writing():
            for digest in digests:
                self.path(digest).unlink(missing_ok=True)

    def place(self, folder: Path, objects: Mapping[str, Digest]) -> None:
        """Links of these names in `folder`, where a tool runs: it then sees no path of ours, whose characters could
        mean something to it (`--module=` ends a path at an @), and its command line is the one that a user repeats."""
        with self.writing():
            for name, digest in objects.items():
                (folder / name).symlink_to(self.path(digest))

    def put_bytes(self, content: bytes) -> Digest:
        digest = digest_of(content)
        if self._found(digest) != digest:  # a damaged one is replaced
            with self.scratch() as place, self.writing():
                (place / "object").write_bytes(content)
                self._publish(place / "object", digest)
        return digest

    def put_file(self, path: Path) -> Digest:
        """Moves the file, which must lie in a scratch directory of this store, unless the object is there already."""
        digest = digest_file(path)
        if self._found(digest) != digest:
            with self.writing():
                self._publish(path, digest)
        return digest

    def _publish(self, path: Path, digest: Digest) -> None:
        path.chmod(0o444)
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
        final = self.path(digest)
        final.parent.mkdir(exist_ok=True)
        path.rename(final)

    def scratch(self) -> AbstractContextManager[Path]:
        """A private directory, gone afterwards."""
        return self._entering(scratch.directory(self.root / "tmp"))

    def lock(self, key: Key) -> AbstractContextManager[None]:
        """One at a time makes this key, in all invocations. Stripes: another key may wait too, never deadlock, since
        nobody takes a second one while holding one."""
        return self._entering(locked(self.root / "locks" / key[:2], whom=_maker))

    def busy(self) -> AbstractContextManager[None]:
        """While something of ours loads this machine; see `MachineLock`."""
        return self._entering(self._machine.busy())

    def quiet(self) -> AbstractContextManager[None]:
        """While nothing else of ours does."""
        return self._entering(self._machine.quiet())

    @cached_property
    def _machine(self) -> MachineLock:
        return MachineLock(self.root)

    @cached_property
    def claims(self) -> Claims:
        """Of measurements, each from its first block to its last."""
        with self.writing():
            return Claims(self.root / "locks" / "measuring")

    @cached_property
    def users(self) -> Users:
        """Who makes, verifies or measures joins before it looks records up: what they name stays until it ends, and
        so does what is published and not recorded yet."""
        with self.writing():
            return Users(self.root / "locks" / "users")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """What the system refuses within is the store's: a StoreError, which ends the run, and no case's failure."""
        try:
            yield
        except OSError as error:
            raise disk.unwritable(self.root, error) from error

    @contextmanager
    def _entering(self, context: AbstractContextManager[T]) -> Iterator[T]:
        """As `context`; only what is refused on entering it is the store's."""
        with ExitStack() as stack:
            with self.writing():
                entered = stack.enter_context(context)
            yield entered


def _maker(lock: int) -> str | None:
    """For whom a key's lock is waited for; None when this process itself makes it."""
    if (found := others(lock)) is None:
        return None
    whom = holders.named(found[0].process) if found else holders.UNSEEN
    return f"waits for {whom}: it makes what is needed here too"


def _refuse_network(root: Path) -> None:
    """Before anything is written there."""
    if (mount := network_mount(root)) is not None:
        raise StoreError(
            "the store lies on a network file system",
            {"store": root, "mount": mount},
            "Set DISPATCHFLOW_STORE to a directory on a local disk.",
        )


def network_mount(root: Path) -> str | None:
    """The mount point, and its kind, of the network file system that this lies on; None where it lies on none."""
    mount, kind = filesystem(root.resolve(), Path("/proc/self/mounts").read_bytes())
    return f"{mount} ({kind})" if kind in _NETWORK else None


def filesystem(path: Path, mounts: bytes) -> tuple[Path, str]:
    """The mount point that an absolute path lies on, and its kind, from the text of /proc/self/mounts."""
    found = Path("/"), ""
    for line in mounts.splitlines():
        _, place, kind, *_ = line.split(b" ")
        # White space and backslashes are written as three octal digits.
        mount = Path(os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), place)))
        # The longest; of two on the same place the later hides the earlier.
        if path.is_relative_to(mount) and len(mount.parts) >= len(found[0].parts):
            found = mount, kind.decode()
    return found
