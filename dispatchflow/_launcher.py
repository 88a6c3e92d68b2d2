"""A small process that starts the tools for us; run as a script, standard library only.

Why not subprocess: this process has one thread and few pages, so that a forked child may call setrlimit and prctl
before exec, `ru_maxrss` is the tool's own (a child of the big process would begin with the parent's), and no tool
outlives us: when our pipe closes, for whatever reason, the running tool's whole process group is killed.

One JSON object a line on stdin, one in reply on stdout:
  {argv, env, cwd, stdin, stdout, stderr, time_limit_s, memory_limit_bytes, cpus}
  {code, timed_out, wall_s, cpu_s, peak_bytes}   or   {error}
"""

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def _child(request, report):
    """After fork: becomes the tool, or writes why not to `report`."""
    try:
        os.setsid()
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.chdir(request["cwd"])
        for number, (path, flags) in enumerate(
            [
                (request["stdin"] or os.devnull, os.O_RDONLY),
                (request["stdout"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
                (request["stderr"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
            ]
        ):
            descriptor = os.open(path, flags, 0o644)
            os.dup2(descriptor, number)
            os.close(descriptor)
        if request["memory_limit_bytes"]:
            limit = request["memory_limit_bytes"]
            # Of what it writes to, not of addresses: mapped code, and room that is only reserved, cost no memory.
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if request["cpus"]:
            os.sched_setaffinity(0, request["cpus"])
        os.execve(request["argv"][0], request["argv"], request["env"])
    except BaseException as error:
        os.write(report, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(127)


def _kill_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _run(request):
    reading, report = os.pipe()  # close-on-exec: end of file without a message means that exec succeeded
    begin = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _child(request, report)
    os.close(report)
    error = os.read(reading, 4096)
    os.close(reading)
    if error:
        os.waitpid(pid, 0)
        return {"error": error.decode(errors="replace")}
    handle = os.pidfd_open(pid)
    ready, _, _ = select.select([handle, 0], [], [], request["time_limit_s"])
    abandoned, timed_out = handle not in ready and 0 in ready, not ready
    if abandoned or timed_out:
        _kill_group(pid)
    _, status, usage = os.wait4(pid, 0)
    _kill_group(pid)  # what it left behind
    os.close(handle)
    if abandoned:
        os._exit(0)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "timed_out": timed_out,
        "wall_s": time.monotonic() - begin,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
    }


def main():
    # Unbuffered: a buffered reader would hide from select() that the pipe was closed, or hold a next request.
    requests = os.fdopen(0, "rb", buffering=0, closefd=False)
    while line := requests.readline():
        sys.stdout.write(json.dumps(_run(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
