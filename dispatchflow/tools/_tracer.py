"""Run a program and the capture of its trace side by side, as a script.

The program and the capture are in the process group of this script, so that one signal ends all. The only argument
is JSON:

  {program, capture, variables, log, facts, grace_s}

`program` and `capture` are command lines. `variables` are added to the program's environment. The output of the
capture is written to the file `log`. At the end, {program, capture, attached} is written to the file `facts`.
`program` and `capture` are exit codes there, or null for a killed process. `attached` says whether the capture found
the program.

The program waits at its end for the capture, and the capture waits for the program. Each would wait forever for a
process that has failed. Therefore, `grace_s` seconds after one process has ended, the other process is killed. A
capture that has found the program is not killed, because it may still write its file.
"""

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
    """Return the exit code of `process`. At the time `limit()`, kill the process and return None."""
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
