"""`doit …` in a directory whose dodo.py says `from dispatchflow import main; main()`.

Stock doit has loaded that file; from here on our own commands answer, then the process exits. Why, and what stock
doit answers instead: docs/decisions/0001. `dispatchflow …` loads it itself: doit, whose import is most of an idle run,
is imported where something is to do.
"""

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
"""What doit answers before it loads a dodo file."""

_SHOW_CURSOR = b"\x1b[?25h"
"""On a terminal, where a bar of progress may have hidden it."""

_running = False


def command() -> None:
    """`dispatchflow …` says what `doit …` says: itself where doit would only load ./dodo.py, else by doit."""
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
            except Exception:  # of the file: doit meets it again, and says it
                if _running:  # of `main()`: as doit says it
                    sys.excepthook(*sys.exc_info())
                    raise SystemExit(3) from None
        from doit.__main__ import main as doit

        raise SystemExit(doit())
    except KeyboardInterrupt as interrupt:
        _interrupted(interrupt)


def _only_loads(words: Sequence[str]) -> bool:
    """Whether stock doit would read no option, answer nothing itself and find no configuration that leads elsewhere."""
    if any(word.startswith("-") or word in _STOCK for word in words) or Path("doit.cfg").exists():
        return False
    try:
        dodo, project = Path("dodo.py").read_bytes(), Path("pyproject.toml")
        return b"doit" not in dodo and not (project.exists() and b"tool.doit" in project.read_bytes())
    except OSError:
        return False


def main() -> None:
    """Answer the command line and exit: 0 well, 1 a case failed, 2 the input is wrong, 3 nothing matched.

    Called from a dodo.py, whose directory holds specs/, the store and the view. Returns when that file is executed
    again for its own `task_*` functions.
    """
    global _running
    if _running:
        return
    _running = True
    output.open_streams()
    _interruptible()
    # Paths may have bytes that are no text: they go out as they came in.
    sys.stdout.reconfigure(errors="surrogateescape" if sys.stdout.encoding == "utf-8" else "backslashreplace")  # type: ignore[union-attr]
    dodo = Path(sys._getframe(1).f_globals["__file__"]).resolve()
    code = run(dodo, sys.argv[1:])
    for number in _INTERRUPTS:  # nothing is left to lose: from here on a signal just ends the process
        if signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_DFL)
    _flush_and_exit(code)


def _interruptible() -> None:
    """Ctrl-C, `kill` and a closed terminal end the run alike. What ignores one of them (nohup) goes on doing so."""
    for number in _INTERRUPTS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    """Once: out of everything that is going on, in order. Twice: at once, which loses no more than `kill -9`."""
    for each in _INTERRUPTS:
        signal.signal(each, lambda again, frame: _end(again))
    raise KeyboardInterrupt(number)


def _interrupted(interrupt: KeyboardInterrupt) -> NoReturn:
    with suppress(OSError):  # a terminal that was closed
        print("\ninterrupted; what was finished is recorded, the next run goes on", file=sys.stderr)
    number: int = interrupt.args[0] if interrupt.args else signal.SIGINT
    _flush()
    _end(number)


def _end(number: int) -> NoReturn:
    """As ended by this signal; not through the interpreter's end, where threads that still wait would complain."""
    with suppress(OSError):  # a terminal that was closed
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
    os._exit(code)  # to take thousands of cases apart takes as long as to look at them


def _flush() -> OSError | None:
    """What kept the rest of standard output from being written."""
    # A closed pipe (`doit list | head`) is no error, nor a closed terminal where the exit code says so.
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return None if error.errno in (errno.EPIPE, errno.EIO) else error
    return None


def run(dodo: Path, argv: Sequence[str]) -> int:
    """The exit code of one command line."""
    began = time.monotonic()
    gc.disable()  # planning makes many values and no cycles; `Run` enables it for what takes long
    try:
        line, names = read(argv), dodo_file.namespace(dodo)
        recall = _recall(dodo, line, names)
        if recall is not None and (said := recall.answer_if_unchanged()) is not None:
            code, text = said
            output.say_last(text + units.seconds(time.monotonic() - began))
            return code
        from dispatchflow.cli.answer import answer  # an idle run, the most frequent of all, ends before

        return answer(dodo.parent, names, line, recall)
    except DispatchflowError as error:
        print(f"doit: {error}", file=sys.stderr)
        return error.exit_code
    except _refused_by_doit() as error:
        print(f"doit: {str(error).partition(' (parsing options')[0]}", file=sys.stderr)  # doit lists its objects there
        return 2
    except BrokenPipeError:
        return 0
    except OSError as error:
        from dispatchflow.store import disk

        print(f"doit: {disk.refused(error)}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        if "can't start new thread" not in str(error):
            return _unexpected()
        print("doit: the system gives no more threads or processes\n-n 1 needs the fewest.", file=sys.stderr)
        return 2
    except Exception:
        return _unexpected()
    except KeyboardInterrupt as interrupt:
        _interrupted(interrupt)


def _unexpected() -> int:
    """Of an exception that is somebody's error; doit's answer would be 3, as where nothing matched."""
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
    """None where the answer may depend on more than `Replay` sees: tasks of the user's own among what is selected,
    options beside -n, the age of measurements."""
    if not line.plain or {"remeasure", "retry"} & set(line.variables):
        return None
    words, own = line.words or dodo_file.default_words(names), dodo_file.task_names(names)
    if own and not _only_cases(words):
        return None
    return Replay(dodo, words, line.variables, own)


def _only_cases(words: Sequence[str]) -> bool:
    """Whether no task of the user's can be meant; no words mean all cases."""
    return all(cases_named(word) for word in (words[1:] if words[:1] == ["run"] and words[1:] else words))
