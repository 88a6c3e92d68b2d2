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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from doit.cmd_base import Command, DodoTaskLoader, TaskLoader2
from doit.cmdparse import CmdOption, CmdParse, CmdParseError
from doit.doit_cmd import DoitMain, set_var
from doit.exceptions import InvalidCommand, InvalidDodoFile, InvalidTask

from dispatchflow import room, tasks, variables
from dispatchflow.actions import STAGES
from dispatchflow.app import App
from dispatchflow.errors import DispatchflowError, SpecError
from dispatchflow.machine import cores
from dispatchflow.making import JOBS, Run
from dispatchflow.reports import units

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


class Loader(TaskLoader2):  # type: ignore[misc]
    cmd_options = DodoTaskLoader.cmd_options

    def __init__(self, app: App) -> None:
        super().__init__()
        self.app = app


class Look(Command):  # type: ignore[misc]
    """A command that makes nothing."""

    # What such a command needs beside the plan is imported in it: an idle run, the most frequent of all, needs none.
    groups: tuple[str, ...] = ("cases", "run")

    def __init__(self, task_loader: Loader, cmds: Any = None, **rest: Any) -> None:
        super().__init__(**rest)
        self.app = task_loader.app

    def get_options(self) -> list[CmdOption]:
        return [CmdOption(option) for option in (*DodoTaskLoader.cmd_options, *self.cmd_options)]


class List(Look):
    name = "list"
    doc_purpose = "the stages and other tasks; with a stage and --all, or a pattern, the cases"
    cmd_options = (
        {"name": "all", "short": "", "long": "all", "type": bool, "default": False, "help": "every case"},
        {
            "name": "status",
            "short": "s",
            "long": "status",
            "type": bool,
            "default": False,
            "help": "what would be made",
        },
    )

    def execute(self, params: Any, args: list[str]) -> int:
        workspace, own = self.app.workspace(), self.app.foreign()
        if args == ["skipped"]:
            for skip in workspace.plan.skips:
                print(f"{skip.name}  {skip.reason}")
            return 0
        if params["all"] or args:
            selection = self.app.select(workspace, args or list(STAGES), own)
            docs = {task.name: task.doc for task in own}
            if args and not params["all"] and all(word in STAGES for word in args):
                args = [f"{len(selection.cases[word]):>6,} cases  {word:<8} {tasks.STAGE_DOCS[word]}" for word in args]
                print("\n".join(args))
                return 0
            from dispatchflow import looking

            for line in looking.cases(workspace, selection, params["status"]):
                print(line)
            for name in selection.foreign:
                print(f"{name:<8}  {docs[name]}")
            return 0
        lines = {stage: tasks.STAGE_DOCS[stage] for stage in STAGES}
        lines |= {command.name: command.doc_purpose for command in COMMANDS if command is not Run}
        lines |= {task.name: task.doc for task in own if not task.subtask_of and not task.name.startswith("_")}
        _print_aligned(lines)
        cases, skips = workspace.plan.cases, workspace.plan.skips
        example = f"profile:{cases[0].operation.name}_*" if cases else "profile:*"
        skipped = f" and {len(skips):,} skipped (doit list skipped)" if skips else ""
        print(f"\n{units.count(len(cases), 'case')}{skipped}; for example: doit '{example}'")
        return 0


def _print_aligned(lines: Mapping[str, str]) -> None:
    width = max(map(len, lines))
    print("\n".join(f"{name:<{width}}  {line}" for name, line in lines.items()))


class Variables(Look):
    name = "variables"
    doc_purpose = "what name=value can say"

    def execute(self, params: Any, args: list[str]) -> int:
        groups = {"cases": "which cases there are", "run": "how they are run", "report": "what report and best show"}
        groups |= {"check": "what store check looks at", "clean": "what store clean removes"}
        for group, title in groups.items():
            print(f"{title}:")
            _print_aligned({f"  {n}=": v.meaning for n, v in variables.VARIABLES.items() if v.group == group})
        return 0


class Plan(Look):
    name = "plan"
    doc_purpose = "the dry run: what a run would make, why, and about how long it takes"
    cmd_options = (JOBS,)

    def execute(self, params: Any, args: list[str]) -> int:
        workspace = self.app.workspace()
        selection = self.app.select(workspace, args, self.app.foreign())
        from dispatchflow import looking

        print("\n".join(looking.plan(workspace, selection, params["jobs"] or len(cores()))))
        return 0


class Explain(Look):
    name = "explain"
    doc_purpose = "why a case would run or not: keys, ingredients, changes, artifacts, commands"

    def execute(self, params: Any, args: list[str]) -> int:
        if not args:
            raise SpecError(
                "explain needs a case",
                {"form": "doit explain profile:NAME"},
                "doit list --all profile shows every name.",
            )
        workspace = self.app.workspace()
        selection = self.app.select(workspace, args)
        for case in selection.last_stage():
            from dispatchflow import looking

            print("\n".join(looking.explain(workspace, workspace.resolver.chain(case))))
        return 0


class Report(Look):
    name = "report"
    doc_purpose = "rows from Parquet: sort=, top=, columns=, tags=, format=, out= (doit variables)"
    fastest = False

    def execute(self, params: Any, args: list[str]) -> int:
        workspace = self.app.workspace(("report",))
        from dispatchflow import looking

        text = looking.report(workspace.store_path / "results", workspace.values, args, self.fastest)
        if out := workspace.values.get("out"):
            try:
                Path(out).write_text(text + "\n", encoding="utf-8")
            except OSError as error:
                raise SpecError(f"out={out} cannot be written", {"found": error.strerror}) from error
        else:
            print(text)
        return 0


class Best(Report):
    name = "best"
    doc_purpose = "the fastest verified configuration of each shape, and its speed-up over default"
    fastest = True


class Toolchains(Look):
    name = "toolchains"
    doc_purpose = "the compilers at hand: version, revision, digest, size; remove=3.12.0 removes a fetched one"

    def execute(self, params: Any, args: list[str]) -> int:
        from dispatchflow import looking, releases

        workspace = self.app.workspace(("toolchains",))
        if "remove" in workspace.values:
            releases.remove(workspace.store, workspace.values["remove"])
        print(looking.toolchains(workspace))
        return 0


class Store(Look):
    name = "store"
    doc_purpose = "what takes the space; store check: is all sound; store clean: remove what is not needed"

    def execute(self, params: Any, args: list[str]) -> int:
        from dispatchflow import upkeep

        match args:
            case []:
                print(upkeep.overview(self.app.workspace(("store",))))
                return 0
            case ["check"]:
                text, sound = upkeep.check(self.app.workspace(("check", "iree")))
                print(text)
                return 0 if sound else 1
            case ["clean"]:
                print(upkeep.clean(self.app.workspace(("cases", "clean", "iree"))))
                return 0
        raise SpecError("store takes one word, or none", {"given": " ".join(args), "known": "check, clean"})


COMMANDS: tuple[type[Command], ...] = (Run, List, Plan, Explain, Report, Best, Store, Toolchains, Variables)
