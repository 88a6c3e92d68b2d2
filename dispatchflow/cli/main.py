"""Execute `doit …` in a directory whose dodo.py has `from dispatchflow import main; main()`.

Stock doit loads that file and so calls `main`, which executes the command and ends the process
(docs/decisions/0001). The command `dispatchflow` loads the file itself, and imports doit only if there is
something to do."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from dispatchflow import units
from dispatchflow.cli import output
from dispatchflow.cli.command_line import CommandLine, read
from dispatchflow.errors import DispatchflowError
from dispatchflow.project import dodo_file
from dispatchflow.project.replay import Replay
from dispatchflow.stages import cases_named

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_STOCK = ("help", "dumpdb", "strace", "tabcompletion")
"""The commands that doit executes without loading a dodo file."""

_BOTH = ("help", "list", "run")
"""The commands that both dispatchflow and stock doit have.

`doit help list` shows stock doit's help, and `dispatchflow help list` shows dispatchflow's."""

_SHOW_CURSOR = b"\x1b[?25h"
"""The terminal's escape sequence that shows the cursor, which a progress bar may have hidden."""

_running = False


def command() -> None:
    """Execute the command `dispatchflow`, which takes doit's arguments but starts faster."""
    _interruptible()
    try:
        if sys.argv[1:] == ["--version"]:
            from importlib.metadata import version

            print(f"dispatchflow {version('dispatchflow')}")
            return
        if _only_loads(sys.argv[1:]):
            sys.path.insert(0, os.getcwd())  # noqa: PTH109
            try:
                runpy.run_path("dodo.py", run_name="dodo")
            except Exception:  # from the file's own code: doit executes the file again and reports the error
                if _running:  # from `main()`: report the error like doit
                    sys.excepthook(*sys.exc_info())
                    raise SystemExit(3) from None
        # Either ./dodo.py did not call `main`, which ends the process, or the command line needs doit.
        from doit.__main__ import main as doit

        raise SystemExit(doit())
    except KeyboardInterrupt as interrupt:
        _interrupted(interrupt)


def _only_loads(words: Sequence[str]) -> bool:
    """Return whether the command `dispatchflow` can execute these words without the command `doit`.

    An option, such as `--help`, needs `doit`."""
    ours = len(words) == 2 and words[0] == "help" and words[1] in _BOTH
    if any(word.startswith("-") or (word in _STOCK and not ours) for word in words) or Path("doit.cfg").exists():
        return False
    try:
        dodo, project = Path("dodo.py").read_bytes(), Path("pyproject.toml")
        return b"doit" not in dodo and not (project.exists() and b"tool.doit" in project.read_bytes())
    except OSError:
        return False


def main() -> None:
    """Execute the command line and exit. Call this function at the end of a dodo.py.

    The exit code is 0 for success, 1 if a case failed, 2 for wrong input, and 3 if nothing matched."""
    global _running
    if _running:
        return
    _running = True
    output.open_streams()
    _interruptible()
    # Paths may have bytes that are not UTF-8; print them unchanged.
    sys.stdout.reconfigure(errors="surrogateescape" if sys.stdout.encoding == "utf-8" else "backslashreplace")  # type: ignore[union-attr]
    dodo = Path(sys._getframe(1).f_globals["__file__"]).resolve()
    code = run(dodo, sys.argv[1:])
    for number in _INTERRUPTS:  # everything is recorded, so from here on a signal ends the process at once
        if signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_DFL)
    _flush_and_exit(code)


def _interruptible() -> None:
    """Make Ctrl-C, `kill` and a closed terminal end the run in the same way."""
    for number in _INTERRUPTS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    """Raise KeyboardInterrupt at the first signal; end the process at the second.

    No finished work is lost in either case."""
    for each in _INTERRUPTS:
        signal.signal(each, lambda again, frame: _end(again))
    raise KeyboardInterrupt(number)


def _interrupted(interrupt: KeyboardInterrupt) -> NoReturn:
    with suppress(OSError):  # the terminal may be closed
        print("\ninterrupted; what was finished is recorded, the next run goes on", file=sys.stderr)
    number: int = interrupt.args[0] if interrupt.args else signal.SIGINT
    _flush()
    _end(number)


def _end(number: int) -> NoReturn:
    """End the process with the exit code of a signal, which is 128 + the signal's number.

    The shutdown of the Python interpreter is skipped, because threads that still wait would print errors during it."""
    with suppress(OSError):  # the terminal may be closed
        if os.isatty(1):
            os.write(1, _SHOW_CURSOR)
    os._exit(128 + number)


def _flush_and_exit(code: int) -> None:
    if (error := _flush()) is not None:
        print(f"doit: {output.OutputLost(error)}", file=sys.stderr)
        code = 2
    if threading.active_count() > 1:
        raise SystemExit(code)
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(code)  # freeing thousands of cases takes as long as reading them


def _flush() -> OSError | None:
    """Write out the buffer of standard output. If this fails, connect standard output to /dev/null.

    Returns the error. Returns None if nothing failed, or if the pipe (`doit list | head`) or the terminal was closed.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return None if error.errno in (errno.EPIPE, errno.EIO) else error
    return None


def run(dodo: Path, argv: Sequence[str]) -> int:
    """Execute one command line and return its exit code."""
    began = time.monotonic()
    gc.disable()  # planning creates many values and no cycles; `RunCommand` enables collection again for long runs
    try:
        line, names = read(argv), dodo_file.namespace(dodo)
        recall = _recall(dodo, line, names)
        if recall is not None and (said := recall.answer_if_unchanged()) is not None:
            code, text = said
            output.say_last(text + units.seconds(time.monotonic() - began))
            return code
        from dispatchflow.cli.answer import (
            answer,
        )  # imported here, because most runs have nothing to do and have returned above

        return answer(dodo.parent, names, line, recall)
    except DispatchflowError as error:
        print(f"doit: {error}", file=sys.stderr)
        return error.exit_code
    except _refused_by_doit() as error:
        print(
            f"doit: {str(error).partition(' (parsing options')[0]}", file=sys.stderr
        )  # the rest of doit's message is the repr of its objects
        return 2
    except BrokenPipeError:
        return 0
    except OSError as error:
        from dispatchflow.store import disk

        print(f"doit: {disk.refused(error)}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # from a class's `__set_name__`: Python 3.11 wraps it
            _interrupted(error.__cause__)
        if "can't start new thread" not in str(error):
            return _unexpected()
        print("doit: the system gives no more threads or processes\n-n 1 needs the fewest.", file=sys.stderr)
        return 2
    except Exception:
        return _unexpected()
    except KeyboardInterrupt as interrupt:
        _interrupted(interrupt)


def _unexpected() -> int:
    """Report a programming error, and return exit code 2.

    doit would return 3, but dispatchflow uses the exit code 3 if nothing matched."""
    sys.excepthook(*sys.exc_info())
    print(
        "doit: an error in this dodo.py, in an operation's or a tuning's file, or in dispatchflow, as shown above",
        file=sys.stderr,
    )
    return 2


def _refused_by_doit() -> tuple[type[Exception], ...]:
    from doit.cmdparse import CmdParseError
    from doit.exceptions import InvalidCommand, InvalidDodoFile, InvalidTask

    return CmdParseError, InvalidCommand, InvalidDodoFile, InvalidTask


def _recall(dodo: Path, line: CommandLine, names: Mapping[str, Any]) -> Replay | None:
    """Return a `Replay`, which can print the output of an earlier run of the same command line again.

    Returns None if the output must not be printed again, for example with `remeasure=` or for a task of the user."""
    if not line.plain or {"remeasure", "retry"} & set(line.variables):
        return None
    words, own = line.words or dodo_file.default_words(names), dodo_file.task_names(names)
    if own and not _only_cases(words):
        return None
    return Replay(dodo, words, line.variables, own)


def _only_cases(words: Sequence[str]) -> bool:
    """Return whether all words select cases; True without words. The word `run` before others is ignored."""
    return all(cases_named(word) for word in (words[1:] if words[:1] == ["run"] and words[1:] else words))
