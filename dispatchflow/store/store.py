"""The store of a project: objects, which are files named by their digest, and records of actions.

An action is one step of the work, such as a compile. `kill -9` loses at most the actions in progress.

.dispatchflow/
  objects/ab/cdef…   objects: written under a temporary name, synced, renamed; read-only
  records.sqlite     records: each is written after its objects (see records.py)
  results/*.parquet  rows of cases, derived from the records (see results/parquet.py)
  sites/*.parquet    rows of sites, derived from the records (see results/site_rows.py)
  answers/           output of runs with nothing to do, printed again if no input has changed (see project/replay.py)
  locks/  tmp/"""

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

# Network file systems, which are refused: SQLite's WAL needs memory that all processes share, and flock must exclude
# processes of all machines.
_NETWORK = {
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "vboxsf",
    "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.glusterfs", "fuse.ceph", "fuse.juicefs",
}  # fmt: skip


_FOLDER = re.compile(r"[0-9a-f]{2}")
T = TypeVar("T")
_log = logging.getLogger(__name__)


class DamagedObject(Exception):
    """An object was missing or damaged. The object and the records that refer to it have been removed."""


class Store:
    """A directory with objects, records of actions, and locks.

    Raises:
        StoreError: the directory is on a network file system, or cannot be written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root = root.absolute()
        # The relative links to objects in `build/` are computed from this path as text. They would be wrong if it had a
        # `..` after a symbolic link.
        if ".." in root.parts:
            self.root = root = root.resolve()
        try:
            with self.writing():
                _refuse_network(root)
                for folder in ("objects", "locks", "tmp", "results"):
                    (root / folder).mkdir(parents=True, exist_ok=True)
                scratch.sweep(root / "tmp")
                # Test writing first: SQLite would report only its own file. Reading and cleaning need no free space.
                with suppress(DiskFull), self.scratch():
                    pass
                self.records = Records(root / "records.sqlite")
        except DiskFull as full:  # the store is new: an existing store opens without free space
            raise DiskFull(full.problem, full.facts, disk.TO_BEGIN) from full

    @property
    def results(self) -> Path:
        return self.root / "results"

    def path(self, digest: Digest) -> Path:
        """Return the path of the object `digest`, even if there is no such object."""
        return self.root / "objects" / digest[:2] / digest[2:]

    def checked(self, digest: Digest) -> Path:
        """Return the path of the object `digest` after checking the content.

        Raises:
            DamagedObject: the content has another digest, or the object is missing. The object and all records that
                refer to the object are removed first.
            UnreadableObject: the object cannot be read.
        """
        if self._found(digest) == digest:
            return self.path(digest)
        self._unlink([digest])
        self.records.drop_output(digest)
        raise DamagedObject(digest)

    def _found(self, digest: Digest) -> Digest | None:
        path = self.path(digest)
        try:
            if S_ISREG(path.stat().st_mode):  # opening a pipe would wait for a writer
                return digest_file(path)
            found = "it is not a regular file"
        except FileNotFoundError:
            return None
        except OSError as error:
            found = error.strerror or str(error)
        hint = "Move it away, and run again: it is made again."
        raise UnreadableObject("an object cannot be read", {"file": path, "found": found}, hint)

    def objects(self) -> dict[Digest, int]:
        """Return a dict from the digest of each object to its size in bytes.

        Files in `objects/` that are not objects are logged, but not removed."""
        found = {}
        for folder in (self.root / "objects").iterdir():
            if not _FOLDER.fullmatch(folder.name) or not folder.is_dir():
                _log.warning("%s is not an object: left alone", folder)
                continue
            with os.scandir(folder) as entries:
                for entry in entries:
                    if not is_digest(folder.name + entry.name) or not entry.is_file(follow_symlinks=False):
                        _log.warning("%s is not an object: left alone", entry.path)
                        continue
                    with suppress(FileNotFoundError):  # damaged, and dropped by another process just now
                        found[Digest(folder.name + entry.name)] = entry.stat().st_size
        return found

    def discard(self, keys: Collection[Key], digests: Collection[Digest]) -> None:
        """Remove the records of the actions `keys`, and the objects `digests`.

        The caller must hold the lock `users` exclusively."""
        try:
            # Records first: after a kill, no record may refer to a missing object.
            self.records.forget(keys, digests)
        except DiskFull:  # deleting records needs space too; after a kill here, missing objects are made again
            if not digests:
                raise
            self._unlink(digests)
            with suppress(DiskFull):  # if too little space is free, records without objects stay
                self.records.forget(keys, digests)
        self._unlink(digests)

    def _unlink(self, digests: Collection[Digest]) -> None:
        with self.writing():
            for digest in digests:
                self.path(digest).unlink(missing_ok=True)

    def place(self, folder: Path, objects: Mapping[str, Digest]) -> None:
        """In `folder`, the directory in which a tool runs, create links to objects of the store.

        `objects` maps the name of each link to the digest of an object."""
        with self.writing():
            for name, digest in objects.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                # A tool could misread a path in the store on its command line: `--module=` ends it at an @.
                (folder / name).symlink_to(self.path(digest))

    def put_bytes(self, content: bytes) -> Digest:
        digest = digest_of(content)
        if self._found(digest) != digest:  # missing, or damaged and replaced
            with self.scratch() as place, self.writing():
                (place / "object").write_bytes(content)
                self._publish(place / "object", digest)
        return digest

    def put_file(self, path: Path) -> Digest:
        """Move the file `path` into the store as an object, and return the object's digest.

        If the store already has the object, the file is not moved. The file must be in a scratch directory of this
        store."""
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
        """Return a context that yields a new private directory, and removes it at the end."""
        return self._entering(scratch.directory(self.root / "tmp"))

    def lock(self, key: Key) -> AbstractContextManager[None]:
        """Return a context that holds the lock of `key`, the key of an action.

        While the context is active, no other thread or process can run this action. A thread must never hold the locks
        of two keys, because two such threads could wait for each other."""
        return self._entering(locked(self.root / "locks" / key[:2], whom=_maker))

    def busy(self) -> AbstractContextManager[None]:
        """Return a context for CPU-intensive work, such as a compile, during which no run may measure."""
        return self._entering(self._machine.busy())

    def quiet(self) -> AbstractContextManager[None]:
        """Return a context for measuring, during which no other run may measure or do CPU-intensive work."""
        return self._entering(self._machine.quiet())

    @cached_property
    def _machine(self) -> MachineLock:
        return MachineLock(self.root)

    @cached_property
    def claims(self) -> Claims:
        """The locks on the keys of long actions, such as measurements.

        A run holds the lock of a key until the action ends."""
        with self.writing():
            return Claims(self.root / "locks" / "measuring")

    @cached_property
    def users(self) -> Users:
        """The lock that protects objects from `doit store clean`.

        Runs that compile, verify or measure take the lock in shared mode before they look up records. They hold it
        until they end. Meanwhile `doit store clean` waits."""
        with self.writing():
            return Users(self.root / "locks" / "users")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Convert an OSError in the body of this context to a StoreError.

        A StoreError ends the run, but an OSError would only fail one case."""
        try:
            yield
        except OSError as error:
            raise disk.unwritable(self.root, error) from error

    @contextmanager
    def _entering(self, context: AbstractContextManager[T]) -> Iterator[T]:
        """Enter `context`. If this raises an OSError, convert the error to a StoreError.

        An OSError in the body of the context is not converted."""
        with ExitStack() as stack:
            with self.writing():
                entered = stack.enter_context(context)
            yield entered


def _maker(lock: int) -> str | None:
    """Describe the process that holds the lock of an action's key. `lock` is the lock file's descriptor.

    Returns None if only threads of this process hold the lock."""
    if (found := others(lock)) is None:
        return None
    whom = holders.named(found[0].process) if found else holders.UNSEEN
    return f"waits for {whom}: it makes a result that is needed here too"


def _refuse_network(root: Path) -> None:
    if (mount := network_mount(root)) is not None:
        raise StoreError(
            "the store lies on a network file system",
            {"store": root, "mount": mount},
            "Set DISPATCHFLOW_STORE to a directory on a local disk.",
        )


def network_mount(root: Path) -> str | None:
    """Describe the network file system that contains `root`, as `MOUNT POINT (TYPE)`.

    Returns None if `root` is on a local disk."""
    mount, kind = filesystem(root.resolve(), Path("/proc/self/mounts").read_bytes())
    return f"{mount} ({kind})" if kind in _NETWORK else None


def filesystem(path: Path, mounts: bytes) -> tuple[Path, str]:
    """Return (mount point, type) of the file system that contains the absolute `path`.

    `mounts` is the content of /proc/self/mounts."""
    found = Path("/"), ""
    for line in mounts.splitlines():
        _, place, kind, *_ = line.split(b" ")
        # White space and backslashes are written as three octal digits.
        mount = Path(os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), place)))
        # The longest mount point wins; if two are mounted on one directory, the later one hides the earlier.
        if path.is_relative_to(mount) and len(mount.parts) >= len(found[0].parts):
            found = mount, kind.decode()
    return found
