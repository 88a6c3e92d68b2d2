"""A script that runs a program and, at the same time, the tool that captures the program's trace.

Both processes are in the process group of this script, so that one signal ends all three. The only argument of the
script is a JSON object:

  {program, capture, variables, log, facts, grace_s}

`program` and `capture` are the two command lines. `variables` are added to the program's environment. The output of
the capture tool is written to the file `log`. After both processes have ended, the script writes {program, capture,
attached} to the file `facts`. There, `program` and `capture` are exit codes, or null for a process that the script
killed. `attached` says whether the capture tool found the program.

The program and the capture tool wait for each other. If one of them fails, the other one would wait forever.
Therefore, the script kills the remaining process `grace_s` seconds after one process has ended. A capture tool that has
found the program is not killed, because it may need more time to write the trace."""

import json
import os
import subprocess
import sys
import time

_ATTACHED = b"Queue delay"
"""The first words that the capture tool prints when it has found a program."""


def _attached(log):
    with open(log, "rb") as said:
        return _ATTACHED in said.read(4096)


def _ended(process, limit):
    """Wait until `process` ends, and return its exit code. If it is killed at its time limit, return None.

    `limit` is a function that returns the time limit, as a time of the clock `time.monotonic()`. It is called
    repeatedly, because the limit may change."""
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
