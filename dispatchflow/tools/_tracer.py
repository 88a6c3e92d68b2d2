"""Run a program and the capture of its trace side by side, until both have ended; run as a script.

Both are in the process group of this script, so that one signal ends all. The only argument is JSON:

  {program, capture, variables, log, facts, grace_s}

`program` and `capture` are command lines. `variables` are added to the program's environment. The output of the capture
is written to the file `log`. When both have ended, {program, capture, attached} is written to the file `facts`: the
exit codes of both processes, null for a process that this script killed, and whether the capture found the program.

At its end the program waits until the capture has read the whole trace. It would wait forever if the capture has
failed, and the capture would wait forever for a program that never connects to it. Therefore, when one process has
ended, the other one is killed `grace_s` seconds later. A capture that has found the program is not killed, because it
may still write its file."""

import json
import os
import subprocess
import sys
import time

_ATTACHED = b"Queue delay"
"""The first words that the capture prints when it has found a program."""


def _attached(log):
    with open(log, "rb") as said:
        return _ATTACHED in said.read(4096)


def _ended(process, limit):
    """Wait for a process and return its exit code; at the time `limit()`, kill it and return None."""
    while process.poll() is None:
        if time.monotonic() > limit():
            process.kill()
            process.wait()
            return None
        time.sleep(0.02)
    return process.returncode


def main():
    request = json.loads(sys.argv[1])
    with open(request["log"], "wb") as log:
        capture = subprocess.Popen(request["capture"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    program = subprocess.Popen(request["program"], env={**os.environ, **request["variables"]})
    while program.poll() is None and capture.poll() is None:
        time.sleep(0.02)
    last = time.monotonic() + request["grace_s"]
    if capture.poll() is None:
        captured = _ended(capture, lambda: float("inf") if _attached(request["log"]) else last)
        ran = program.returncode
    else:
        ran, captured = _ended(program, lambda: last), capture.returncode
    with open(request["facts"], "w") as facts:
        json.dump({"program": ran, "capture": captured, "attached": _attached(request["log"])}, facts)


if __name__ == "__main__":
    main()
