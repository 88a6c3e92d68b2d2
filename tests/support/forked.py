"""Run `doit` as a fork of a server that has imported `doit`; each pytest worker has one server."""

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
"""The server's environment, copied from the pytest worker before any test changes variables."""
READ_LATE = ("DISPATCHFLOW_", "PYTEST_")


class Forked:
    """A `doit` process that was forked from the server (the script `doit_server.py`).

    The class has those members of `subprocess.Popen` that `tools.finished` uses."""

    def __init__(self, out: int, err: int, answer: int) -> None:
        self._streams, self._answer = {out: b"", err: b"", answer: b""}, answer
        self.returncode: int | None = None
        self.args = "doit, forked"

    @property
    def pid(self) -> int:
        """The process number. The first access waits until the server has sent this number."""
        while b"\n" not in self._streams[self._answer]:
            self._streams[self._answer] += os.read(self._answer, 64)
        return int(self._streams[self._answer].split()[0])

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait until the process has ended; return its output and its errors.

        Raises:
            subprocess.TimeoutExpired: the wait takes longer than `timeout` seconds.
        """
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
    """Start `doit WORDS` as a fork of this pytest worker's server; return None if a fork is not possible.

    `variables` is the command's environment. A fork is possible if this environment differs from the server's
    environment only in variables whose names begin with `DISPATCHFLOW_` or `PYTEST_`."""
    # The server may have read other variables while it imported `doit`.
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
    """Start this pytest worker's server (`doit_server.py`); return (socket for requests, process).

    The server ends when this process ends."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # Python chooses at its start how to buffer output, and a fork, whose output is a pipe, keeps this choice.
    with its:
        process = subprocess.Popen(
            [sys.executable, SERVER], cwd="/", env=OWN, stdin=its, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    return ours, process
