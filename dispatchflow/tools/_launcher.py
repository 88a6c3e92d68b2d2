"""A small process that starts the tools, such as `iree-compile`.

The launcher is a script that has only one thread, and imports only the standard library. The reasons for a separate
process are in docs/decisions/0007-launcher-process.md. If the launcher's stdin is closed, the process group of the tool
is killed.

The launcher reads requests from stdin and writes replies to stdout. Each request and each reply is a JSON object on
one line. A request has the fields of `processes.Command`:

  {argv, env, cwd, stdin, stdout, stderr, output_limit_bytes, time_limit_s, memory_limit_bytes, cpus, count_waits}

A reply is one of three objects:

  {code, timed_out, wall_s, cpu_s, peak_bytes, waited_s}: the tool ended, or was killed at its time limit
  {error}: the tool could not be started
  {error, errno, file}: the tool's output could not be written"""

import ctypes
import json
import os
import resource
import select
import signal
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)


class _Printed:
    """Copies the stdout or the stderr of a tool into a file.

    If the output is longer than `limit` bytes, only its first and its last `limit` / 2 bytes are kept."""

    def __init__(self, path, flags, limit):
        self.path, self.file = path, os.open(path, flags | os.O_WRONLY | os.O_CREAT, 0o644)
        self.pipe, self.end = os.pipe()
        os.set_blocking(self.pipe, False)
        self.room, self.kept = limit // 2, limit - limit // 2
        self.tail, self.dropped, self.error = bytearray(), 0, None

    def read(self):
        """Copy up to 1 MiB of new output. Return False if the tool will print no more."""
        try:
            piece = os.read(self.pipe, 1 << 20)
        except BlockingIOError:
            return True
        self._write(piece[: self.room])
        self.tail += piece[self.room :]
        self.room = max(0, self.room - len(piece))
        if len(self.tail) > 2 * self.kept:
            self._cut()
        return bool(piece)

    def close(self):
        self._cut()
        if self.dropped:
            self._write(f"\n… {self.dropped} bytes left out …\n".encode())
        self._write(self.tail)
        os.close(self.file)
        os.close(self.pipe)

    def _cut(self):
        excess = max(0, len(self.tail) - self.kept)
        del self.tail[:excess]
        self.dropped += excess

    def _write(self, piece):
        try:
            while piece and self.error is None:
                piece = piece[os.write(self.file, piece) :]
        except OSError as error:  # a full disk
            self.error = error


def _child(request, outputs, report):
    try:
        os.setpgid(0, 0)  # not setsid: the session identifies the processes to end when this launcher is killed
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.chdir(request["cwd"])
        descriptor = os.open(request["stdin"] or os.devnull, os.O_RDONLY)
        os.dup2(descriptor, 0)
        os.close(descriptor)
        for number, output in enumerate(outputs, 1):
            os.dup2(output.end, number)
        if request["memory_limit_bytes"]:
            limit = request["memory_limit_bytes"]
            # Limits writable memory, not address space: mapped code and reserved addresses take no memory.
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if request["cpus"]:
            os.sched_setaffinity(0, request["cpus"])
        os.execve(request["argv"][0], request["argv"], request["env"])
    except BaseException as error:
        os.write(report, os.fsencode(f"{type(error).__name__}: {error}"))  # the error may name a path of any bytes
    finally:
        os._exit(127)


class _Waits:
    """Measures how long a tool's threads waited for a CPU because other processes used the CPU."""

    def __init__(self, cpus):
        self.cpus, self.threads = cpus, {}
        self.begin_s, self.idle_s = time.monotonic(), self._idle_s()

    def read(self, pid):
        """Record how long each thread of the process `pid` has run and has waited for a CPU, in ns.

        The launcher calls this function whenever the tool prints, and when the tool ends. For a thread that has ended,
        the times of the last call are kept, because the kernel no longer reports them."""
        for thread in os.listdir(f"/proc/{pid}/task"):
            try:
                with open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as numbers:
                    ran, waited, _ = map(int, numbers.read().split())
                    self.threads[thread] = ran, waited
            except (OSError, ValueError):  # the thread has ended, or the kernel does not report it
                pass

    def seconds(self, cpu_s):
        """Estimate the longest time, in s, that a thread waited for a CPU because of other processes.

        `cpu_s` is the CPU time that the tool used. Returns None if the tool may run on all CPUs, or if Linux does not
        report the times."""
        idle_s = self._idle_s()
        if not self.threads or self.idle_s is None or idle_s is None:
            return None
        # A thread that hardly runs delays nothing: its wait counts as at most ten times its running time.
        waited_s = max(min(10 * ran, waited) for ran, waited in self.threads.values()) / 1e9
        if len(self.cpus) == 1:
            return waited_s
        count, tick_s = len(self.cpus), 1 / os.sysconf("SC_CLK_TCK")
        # Threads of the tool also wait for each other. Only the time that other processes used the CPUs counts.
        others_s = count * (time.monotonic() - self.begin_s) - (idle_s - self.idle_s) - cpu_s
        return max(0.0, min(waited_s, others_s - tick_s * (1 + count**0.5)))

    def _idle_s(self):
        """Return the total idle time since boot, in s, of the CPUs in `cpus`.

        The tool may run only on these CPUs. Time that the hypervisor took (steal) counts as idle. Returns None if
        `cpus` is empty (no restriction), or if the kernel does not report the time."""
        try:
            with open("/proc/stat") as stat:
                lines = {words[0]: words for words in map(str.split, stat) if words[0].startswith("cpu")}
            # The fields are idle, iowait and steal.
            ticks = sum(int(lines[f"cpu{cpu}"][field]) for cpu in self.cpus for field in (4, 5, 8))
        except (OSError, KeyError, IndexError, ValueError):
            return None
        return ticks / os.sysconf("SC_CLK_TCK") if self.cpus else None


def _kill_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _kill_rest():
    """Kill the processes that the tool started outside its process group and left running.

    The kernel makes such orphans children of the launcher, because the launcher is a subreaper (see `main`)."""
    while True:
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as listed:
                left = [int(pid) for pid in listed.read().split()]
        except OSError:  # this kernel does not list children
            return
        if not left:
            return
        for pid in left:
            _kill_group(pid)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _run(request):
    outputs = []
    try:
        for name, flags in (("stdout", os.O_TRUNC), ("stderr", os.O_APPEND)):
            path = os.path.join(request["cwd"], request[name])
            outputs.append(_Printed(path, flags, request["output_limit_bytes"]))
        reply = _run_into(outputs, request)
    except OSError as error:
        reply = {"error": f"{type(error).__name__}: {error}"}
    for output in outputs:
        output.close()
        if output.error is not None:
            reply = {"error": output.error.strerror, "errno": output.error.errno, "file": output.path}
    return reply


def _run_into(outputs, request):
    reading, report = os.pipe()  # close-on-exec: end of file without a message means that exec succeeded
    waits = _Waits(request["cpus"]) if request.get("count_waits") else None
    begin = time.monotonic()
    deadline = begin + request["time_limit_s"]
    pid = os.fork()
    if pid == 0:
        _child(request, outputs, report)
    for descriptor in (report, *(output.end for output in outputs)):
        os.close(descriptor)
    error = os.read(reading, 4096)
    os.close(reading)
    if error:
        os.waitpid(pid, 0)
        return {"error": error.decode(errors="replace")}
    handle = os.pidfd_open(pid)
    open_ones = {output.pipe: output for output in outputs}
    ended = abandoned = timed_out = False
    while not (ended or abandoned or timed_out):
        left_s = deadline - time.monotonic()
        ready, _, _ = select.select([handle, 0, *open_ones], [], [], max(0.0, left_s))
        if waits and (handle in ready or open_ones.keys() & ready):
            waits.read(pid)
        for pipe in open_ones.keys() & ready:
            if not open_ones[pipe].read():
                del open_ones[pipe]
        ended, abandoned, timed_out = handle in ready, 0 in ready, left_s <= 0
    if not ended:
        _kill_group(pid)
    _, status, usage = os.wait4(pid, 0)
    _kill_group(pid)  # processes that it left behind
    _kill_rest()
    os.close(handle)
    if abandoned and not ended:
        os._exit(0)
    for output in open_ones.values():
        output.read()
    return {
        "code": os.waitstatus_to_exitcode(status),
        "timed_out": timed_out and not ended,
        "wall_s": time.monotonic() - begin,
        "cpu_s": (cpu_s := usage.ru_utime + usage.ru_stime),
        "peak_bytes": usage.ru_maxrss * 1024,
        "waited_s": waits.seconds(cpu_s) if waits else None,
    }


def main():
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # Unbuffered: a buffered reader would hide from select() that the pipe was closed, or keep the next request.
    requests = os.fdopen(0, "rb", buffering=0, closefd=False)
    while (line := requests.readline()).endswith(b"\n"):  # an incomplete line comes from a killed process
        reply = json.dumps(_run(json.loads(line))) + "\n"
        try:
            os.write(1, reply.encode())
        except BrokenPipeError:  # the process that sent the request has ended
            return


if __name__ == "__main__":
    main()
