"""A store on a network file system is refused. The tests use a FUSE mount instead of a real network."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.project import Project, sweep

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

LOOKUP, GETATTR, INIT = 1, 3, 26
WRITING = {4: "setattr", 6: "symlink", 8: "mknod", 9: "mkdir", 10: "unlink", 35: "create"}


@dataclass
class Server:
    """A FUSE server of an empty directory; `written` lists the requests that would change the directory."""

    descriptor: int
    written: list[str] = field(default_factory=list)

    def serve(self) -> None:
        while True:
            try:
                request = os.read(self.descriptor, 1 << 17)
            except OSError:  # the file system was unmounted
                return
            opcode, unique = struct.unpack_from("=IQ", request, 4)
            if opcode in WRITING:
                self.written.append(WRITING[opcode])
            error, content = 0, b""
            if opcode == INIT:
                content = struct.pack("=IIIIHHIIHH8I", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, *[0] * 8)
            elif opcode == GETATTR:
                attributes = (1, 0, 0, 0, 0, 0, 0, 0, 0, stat.S_IFDIR | 0o755, 2, 0, 0, 0, 4096, 0)
                content = struct.pack("=QII6Q10I", 0, 0, 0, *attributes)
            else:
                error = -errno.ENOENT if opcode == LOOKUP else -errno.ENOSYS
            os.write(self.descriptor, struct.pack("=IiQ", 16 + len(content), error, unique) + content)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Serve a FUSE file system at `tmp_path/far away`; skip the test if it cannot be mounted."""
    place = tmp_path / "far away"
    place.mkdir()
    try:
        descriptor = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        pytest.skip(f"no FUSE here: {error.strerror}")
    options = f"fd={descriptor},rootmode=40000,user_id=0,group_id=0".encode()
    if ctypes.CDLL(None).mount(b"me@host:", os.fsencode(place), b"fuse.sshfs", 0, options):
        os.close(descriptor)
        pytest.skip("only root may mount, and not in every container")
    found = Server(descriptor)
    threading.Thread(target=found.serve, daemon=True).start()
    yield found
    subprocess.run(["umount", "-l", os.fspath(place)], check=True)
    os.close(descriptor)


def test_a_store_on_the_network_is_refused_and_nothing_is_written_there(server: Server, tmp_path: Path) -> None:
    project = Project.make(tmp_path / "p", sweep(target="vmvx"))

    for words in (["verify"], ["plan"], ["toolchains"]):
        outcome = project.doit(*words, DISPATCHFLOW_STORE=f"{tmp_path}/far away/store")

        assert outcome.code == 2, str(outcome)
        assert outcome.err.startswith("doit: the store lies on a network file system:")
        assert f"{tmp_path}/far away (fuse.sshfs)" in outcome.err
        assert "Set DISPATCHFLOW_STORE to a directory on a local disk." in outcome.err
    assert server.written == []
    assert project.doit("verify").code == 0
