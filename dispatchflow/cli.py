"""`doit …` in a directory whose dodo.py says `from dispatchflow import main; main()`.

Stock doit has loaded that file; from here on our own commands answer, then the process exits. Why, and what stock
doit answers instead: docs/decisions/0001.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from doit.cmd_base import DodoTaskLoader
from doit.cmdparse import CmdOption, CmdParse, CmdParseError
from doit.doit_cmd import DoitMain, set_var
from doit.exceptions import InvalidCommand, InvalidDodoFile, InvalidTask

from dispatchflow import room
from dispatchflow.answers import COMMANDS
from dispatchflow.app import App, Loader
from dispatchflow.errors import DispatchflowError
from dispatchflow.making import JOBS

_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_WITH_VALUE = tuple(f"{dash}{JOBS[length]}" for dash, length in (("-", "short"), ("--", "long")))

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_running = False


def main() -> None:
    """Answer the command line and exit: 0 well, 1 a case failed, 2 the input is wrong, 3 nothing matched.

    Called from a dodo.py, whose directory holds specs/, the store and the view. Returns when that file is executed
    again for its own `task_*` functions.
    """
    global _running
    if _running:
        return
    _running = True
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
        signal.signal(each, lambda again, frame: os._exit(128 + again))
    raise KeyboardInterrupt(number)


def _flush_and_exit(code: int) -> None:
    _flush()
    if threading.active_count() > 1:
        raise SystemExit(code)
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(code)  # to take thousands of cases apart takes as long as to look at them


def _flush() -> None:
    # A closed pipe (`doit list | head`) is no error.
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(dodo: Path, argv: Sequence[str]) -> int:
    """The exit code of one command line."""
    gc.disable()  # planning makes many values and no cycles; `Run` enables it for what takes long
    try:
        app = App(dodo)
        code = Main(app).run(argv)
        app.close()
        return code
    except DispatchflowError as error:
        print(f"doit: {error}", file=sys.stderr)
        return error.exit_code
    except (CmdParseError, InvalidCommand, InvalidDodoFile, InvalidTask) as error:
        print(f"doit: {str(error).partition(' (parsing options')[0]}", file=sys.stderr)  # doit lists its objects there
        return 2
    except BrokenPipeError:
        return 0
    except OSError as error:
        print(f"doit: {room.refused(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print("\ninterrupted; what was finished is recorded, the next run goes on", file=sys.stderr)
        number: int = interrupt.args[0] if interrupt.args else signal.SIGINT
        _flush()
        os._exit(128 + number)  # not through the interpreter's end, where threads that still wait would complain


class Main(DoitMain):  # type: ignore[misc]
    """doit's main with our commands and exit codes."""

    def __init__(self, app: App) -> None:
        super().__init__(Loader(app), config_filenames=())
        self.app = app

    def run(self, all_args: Sequence[str]) -> int:
        commands = {command.name: command for command in COMMANDS}
        self.app.commands = sorted(commands)
        try:  # -f, -d and -k may stand before the command; stock doit has acted on them
            options, rest = CmdParse([CmdOption(o) for o in DodoTaskLoader.cmd_options]).parse_only(all_args)
        except CmdParseError:
            options, rest = {}, all_args
        flags: list[str] = []
        words: list[str] = []
        waiting = iter(rest)
        for word in waiting:  # options may stand anywhere, as they may for most tools
            if match := _VARIABLE.match(word):
                self.app.raw[match[0][:-1]] = word[match.end() :]
                set_var(match[0][:-1], word[match.end() :])
            elif word.startswith("-"):
                flags += [word, next(waiting, "")] if word in _WITH_VALUE else [word]
            else:
                words.append(word)
        name = words.pop(0) if words and words[0] in commands else "run"
        command = commands[name](
            task_loader=self.task_loader, config=self.config, bin_name="doit", cmds=commands, opt_vals=options
        )
        code: int = command.parse_execute(flags + words)
        return code
