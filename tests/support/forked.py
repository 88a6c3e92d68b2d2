"""`doit` forked from a process that has imported it: one such process for each worker of the tests."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

SERVER = Path(__file__).with_name("doit_server.py")
OWN = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
"""The server's environment, whatever a test changes of the worker's."""
READ_LATE = ("DISPATCHFLOW_", "PYTEST_")


class Forked:
    """What `finished` asks of a `subprocess.Popen`, of a child of the server."""

    def __init__(self, out: int, err: int, answer: int) -> None:
        self._streams, self._answer = {out: b"", err: b"", answer: b""}, answer
        self.returncode: int | None = None
        self.args = "doit, forked"

    @property
    def pid(self) -> int:
        """Known once the server has answered, which it does at once."""
        while b"\n" not in self._streams[self._answer]:
            self._streams[self._answer] += os.read(self._answer, 64)
        return int(self._streams[self._answer].split()[0])

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Until it has ended and nobody holds its streams, as of a subprocess."""
        end, open_ones = time.monotonic() + timeout, set(self._streams)
        while open_ones:
            ready, _, _ = select.select([*open_ones], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(self.args, timeout)
            for stream in ready:
                piece = os.read(stream, 1 << 16)
                self._streams[stream] += piece
                if not piece:
                    open_ones.remove(stream)
        for stream in self._streams:
            os.close(stream)
        out, err, answer = self._streams.values()
        self.returncode = int(answer.split()[1])
        return _text(out), _text(err)


def _text(said: bytes) -> str:
    return said.decode(errors="surrogateescape").replace("\r\n", "\n").replace("\r", "\n")


def forked(words: Sequence[str], cwd: Path, variables: Mapping[str, str]) -> Forked | None:
    """None where a variable differs that is not dispatchflow's own: the interpreter, a library or a module may have read
    it while it was imported."""
    changed = {name for name in OWN.keys() | variables.keys() if OWN.get(name) != variables.get(name)}
    if not all(name.startswith(READ_LATE) for name in changed):
        return None
    pipes = [os.pipe() for _ in range(3)]
    request = json.dumps([words, os.fspath(cwd), variables]).encode()
    requests, _ = _server()
    socket.send_fds(requests, [request], [writing for _, writing in pipes])
    for _, writing in pipes:
        os.close(writing)
    return Forked(*(reading for reading, _ in pipes))


@cache
def _server() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """It ends when this process does: with the other end of its socket. Its streams are pipes, as those of the forked
    are, which inherit what Python found out about them."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        process = subprocess.Popen(
            [sys.executable, SERVER], cwd="/", env=OWN, stdin=its, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    return ours, process
