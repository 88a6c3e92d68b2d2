"""The commands that make nothing, and the table of all commands. A new one is one class and one entry in `COMMANDS`."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from doit.cmd_base import Command, DodoTaskLoader
from doit.cmdparse import CmdOption
from doit.doit_cmd import reset_vars, set_var
from doit.task import Task

from dispatchflow import units
from dispatchflow.cli import stage_tasks, variables
from dispatchflow.cli.command_line import JOBS, CommandLine
from dispatchflow.cli.commands.run import RunCommand
from dispatchflow.cli.invocation import Invocation, Loader
from dispatchflow.errors import SpecError, escaped, plain, suggestion
from dispatchflow.planning.plan import Skip
from dispatchflow.project import dodo_file
from dispatchflow.project.replay import Replay
from dispatchflow.stages import STAGES
from dispatchflow.tools.machine import cores

_LIMITS = ("compile_limit", "run_limit", "memory_limit")
"""Of what a toolchain is asked."""


class QueryCommand(Command):  # type: ignore[misc]
    """A command that makes nothing."""

    # What such a command needs beside the plan is imported in it: an idle run, the most frequent of all, needs none.
    groups: tuple[str, ...] = ("cases", "run")

    def __init__(self, task_loader: Loader, cmds: Any = None, **rest: Any) -> None:
        super().__init__(**rest)
        self.app = task_loader.app

    def get_options(self) -> list[CmdOption]:
        return [CmdOption(option) for option in (*DodoTaskLoader.cmd_options, *self.cmd_options)]


class ListCommand(QueryCommand):
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
            "help": "every case, and what would be made of it",
        },
    )

    def execute(self, params: Any, args: list[str]) -> int:
        workspace, own = self.app.workspace(), self.app.foreign()
        listed, status = params["all"] or params["status"], params["status"]
        if args == ["skipped"]:
            if listed:
                raise SpecError("list skipped takes no option", {}, "It prints every skip.")
            _print_skips(workspace.plan.skips)
            return 0
        if listed or args:
            selection = self.app.select(workspace, args or list(STAGES), own)
            docs = {task.name: task.doc for task in own}
            if status and not selection.cases:
                raise SpecError(
                    "-s tells of cases", {"given": " ".join(args)}, "doit itself decides on your own tasks."
                )
            if args and not listed and all(word in STAGES for word in args):
                args = [
                    f"{len(selection.cases[word]):>6,} cases  {word:<8} {stage_tasks.STAGE_DOCS[word]}" for word in args
                ]
                print("\n".join(args))
                return 0
            from dispatchflow.cli.commands import queries

            for line in queries.cases(workspace, selection, status):
                print(line)
            if not selection.last_stage():
                _print_skips(selection.skips)
            for name in selection.foreign:
                print(f"{name:<8}  {docs[name]}")
            return 0
        _print_aligned(_named(own))
        cases, skips = workspace.plan.cases, workspace.plan.skips
        skipped = f" and {len(skips):,} skipped (doit list skipped)" if skips else ""
        example = f"; for example: doit 'profile:{cases[0].operation.name}_*'" if cases else ""
        print(f"\n{units.count(len(cases), 'case')}{skipped}{example}")
        return 0


def _named(own: Sequence[Task]) -> dict[str, str]:
    """What may stand first on a command line, and what it does."""
    lines = {stage: stage_tasks.STAGE_DOCS[stage] for stage in STAGES}
    lines |= {command.name: command.doc_purpose for command in COMMANDS if command is not RunCommand}
    return lines | {task.name: task.doc for task in own if not task.subtask_of and not task.name.startswith("_")}


class HelpCommand(QueryCommand):
    """Of a word: `doit help` alone is doit's."""

    name = "help"
    doc_purpose = "doit help WORD: what a command, a stage, a variable or a task of your own is"

    def execute(self, params: Any, args: list[str]) -> int:
        commands = {command.name: command for command in COMMANDS}
        known = {name: variable.meaning for name, variable in variables.VARIABLES.items()}
        known |= {RunCommand.name: RunCommand.doc_purpose, **_named(self.app.foreign())}
        for word in (each.partition(":")[0] for each in args):
            if word not in known:
                raise SpecError(f"there is no help on '{word}'", {}, suggestion(word, known) or "doit list shows all.")
            print(f"{word}  {known[word]}")
            for option in commands[word].cmd_options if word in commands else ():
                short = f"-{option['short']}, " if option["short"] else ""
                print(f"  {short}--{option['long']}  {option['help']}")
        return 0


def _no_words(command: str, args: list[str]) -> None:
    if args:
        raise SpecError(f"{command} takes no words", {"given": " ".join(args)})


def _print_skips(skips: Collection[Skip]) -> None:
    print("".join(f"{skip.name}  {skip.reason}\n" for skip in skips), end="")
    if len(reasons := Counter(skip.reason for skip in skips)) < len(skips):
        print("\n" + "\n".join(f"{count:>6,}  {reason}" for reason, count in reasons.most_common()))


def _print_aligned(lines: Mapping[str, str]) -> None:
    width = max(map(len, lines))
    print("\n".join(f"{name:<{width}}  {line}" for name, line in lines.items()))


class VariablesCommand(QueryCommand):
    name = "variables"
    doc_purpose = "what name=value can say"

    def execute(self, params: Any, args: list[str]) -> int:
        _no_words(self.name, args)
        variables.parse(self.app.variables, ())
        groups = {"cases": "which cases there are", "run": "how they are run", "report": "what report and best show"}
        groups |= {"history": "what report alone shows"}
        groups |= {"toolchains": "what toolchains removes"}
        groups |= {"check": "what store check looks at", "clean": "what store clean removes"}
        for group, title in groups.items():
            print(f"{title}:")
            _print_aligned({f"  {n}=": v.meaning for n, v in variables.VARIABLES.items() if v.group == group})
        return 0


class PlanCommand(QueryCommand):
    name = "plan"
    doc_purpose = "the dry run: what a run would make, why, and about how long it takes"
    cmd_options = (JOBS,)

    def execute(self, params: Any, args: list[str]) -> int:
        workspace, own = self.app.workspace(), self.app.foreign()
        words = args or dodo_file.default_words(self.app.names)
        selection = self.app.to_make(workspace, words, own)
        from dispatchflow.cli.commands import queries

        print("\n".join(queries.plan(workspace, selection, params["jobs"] or len(cores()))))
        if selection.foreign:
            print(f"then of your own: {', '.join(selection.foreign)}")
        return 0


class ExplainCommand(QueryCommand):
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
        selection = self.app.select(workspace, args, self.app.foreign())
        if own := [name for name in selection.foreign if name in args or not selection.cases]:
            hint = "doit plan says which cases it depends on."
            raise SpecError(f"'{own[0]}' is a task of your own", {"form": "doit explain profile:NAME"}, hint)
        for case in selection.last_stage():
            from dispatchflow.cli.commands import queries

            # A user's function, a flag or a file's name may hold anything.
            print(plain("\n".join(queries.explain(workspace, workspace.resolver.chain(case)))))
        if not selection.last_stage():
            _print_skips(selection.skips)
        return 0


def _unwritable(out: Path, error: OSError) -> SpecError:
    problem = f"out={out} cannot be written"
    if isinstance(error, FileNotFoundError) and not out.parent.exists():
        way_out = f"Make it: mkdir -p {shlex.quote(str(out.parent))}."
        return SpecError(problem, {"found": f"no folder '{out.parent}'"}, way_out)
    return SpecError(problem, {"found": error.strerror})


class KnownCommand(QueryCommand):
    name = "known"
    doc_purpose = "the known failures: how many cases each covers, and what the records say of them"

    def execute(self, params: Any, args: list[str]) -> int:
        workspace = self.app.workspace()
        selection = self.app.select(workspace, args or list(STAGES[-1:]), self.app.foreign())
        from dispatchflow.cli.commands import queries

        print("\n".join(queries.known_failures(workspace, selection)))
        return 0


class ReportCommand(QueryCommand):
    name = "report"
    doc_purpose = "rows from Parquet: sort=, top=, columns=, tags=, format=, out= (doit variables)"
    fastest = False
    groups: tuple[str, ...] = ("report", "tags", "history")

    def execute(self, params: Any, args: list[str]) -> int:
        workspace = self.app.workspace(self.groups)
        from dispatchflow.reports import query

        text = query.report(workspace.store_path / "results", workspace.values, args, self.fastest)
        if out := workspace.values.get("out"):
            try:
                Path(out).write_text(text + "\n", encoding="utf-8")
            except OSError as error:
                raise _unwritable(Path(out), error) from error
        else:
            print(escaped(text))  # tags and names of functions may hold anything
        return 0


class BestCommand(ReportCommand):
    name = "best"
    doc_purpose = "the fastest verified configuration of each shape, and its speed-up over default"
    fastest = True
    groups = ("report", "tags")


class ToolchainsCommand(QueryCommand):
    name = "toolchains"
    doc_purpose = "the compilers at hand: version, revision, digest, size; remove=3.12.0 removes a fetched one"

    def execute(self, params: Any, args: list[str]) -> int:
        from dispatchflow.cli.commands import queries
        from dispatchflow.tools import releases

        _no_words(self.name, args)
        workspace = self.app.workspace(("toolchains", "iree", *_LIMITS))
        if "remove" in workspace.values:
            releases.remove(workspace.store, workspace.values["remove"])
        text, unusable = queries.toolchains(workspace)
        print(text)
        return 2 if workspace.values.get("iree") in unusable else 0


class DevicesCommand(QueryCommand):
    name = "devices"
    doc_purpose = "the targets, the device that runs each, or why there is none"

    def execute(self, params: Any, args: list[str]) -> int:
        from dispatchflow.cli.commands import queries

        _no_words(self.name, args)
        print(queries.devices(self.app.workspace(("iree", *_LIMITS))))
        return 0


class StoreCommand(QueryCommand):
    name = "store"
    doc_purpose = "what takes the space; store check: is all sound; store clean: remove what is not needed"

    def execute(self, params: Any, args: list[str]) -> int:
        from dispatchflow.project import maintenance

        match args:
            case []:
                print(maintenance.overview(self.app.workspace(("store",))))
                return 0
            case ["check"]:
                text, sound = maintenance.check(self.app.workspace(("check", "iree", *_LIMITS)))
                print(text)
                return 0 if sound else 1
            case ["clean"]:
                # Nothing else asks which cases there are, and what their toolchains make of them.
                referenced = "referenced" in self.app.variables.get("keep", "")
                groups = ("clean", "cases", "iree", *_LIMITS) if referenced else ("clean",)
                print(maintenance.clean(self.app.workspace(groups)))
                return 0
        raise SpecError("store takes one word, or none", {"given": " ".join(args), "known": "check, clean"})


COMMANDS: tuple[type[Command], ...] = (
    *(RunCommand, ListCommand, PlanCommand, ExplainCommand, KnownCommand, ReportCommand, BestCommand),
    *(DevicesCommand, StoreCommand, ToolchainsCommand, VariablesCommand, HelpCommand),
)


def answer(root: Path, names: Mapping[str, Any], line: CommandLine, recall: Replay | None) -> int:
    """The exit code of one command line, answered by the command that it names, or by `run`."""
    commands = {command.name: command for command in COMMANDS}
    reset_vars()
    for name, value in line.variables.items():
        set_var(name, value)  # the user's own tasks may ask for them
    app = Invocation(root, names, line.variables, sorted(commands), recall)
    name, *words = line.words if line.words and line.words[0] in commands else ("run", *line.words)
    flags = line.flags
    if {"-h", "--help"} & set(flags):
        name, words, flags = HelpCommand.name, line.words, []
    command = commands[name](
        task_loader=Loader(app), config={}, bin_name="doit", cmds=commands,
        opt_vals=line.before,
    )  # fmt: skip
    code: int = command.parse_execute(flags + words)
    app.close()
    return code
