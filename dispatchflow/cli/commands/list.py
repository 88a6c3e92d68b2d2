"""`doit list` lists the stages and commands, or the cases of a stage or a pattern."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from doit.cmd_base import Command
from doit.task import Task

from dispatchflow import units
from dispatchflow.cli import case_tasks
from dispatchflow.cli.commands._base import QueryCommand, print_aligned, print_skips
from dispatchflow.cli.selection import Selection
from dispatchflow.errors import SpecError
from dispatchflow.project.workspace import Workspace
from dispatchflow.stages import NAMED, SITES, STAGES

RUN = "run"
"""The command that is executed if the command line names none."""


class ListCommand(QueryCommand):
    name = "list"
    page = "docs/specs.md"
    doc_purpose = "show stages and commands, or cases; usage: doit list [PATTERN | --all STAGE | skipped]"
    cmd_options = (
        {"name": "all", "short": "", "long": "all", "type": bool, "default": False, "help": "every case"},
        {
            "name": "status",
            "short": "s",
            "long": "status",
            "type": bool,
            "default": False,
            "help": "every case, and its pending stages",
        },
    )

    def execute(self, params: Any, args: list[str]) -> int:
        workspace, own = self.app.workspace(), self.app.foreign()
        listed, status = params["all"] or params["status"], params["status"]
        if args == ["skipped"]:
            if listed:
                raise SpecError("list skipped takes no option", {}, "It prints every skip.")
            print_skips(workspace.plan.skips)
            return 0
        if listed or args:
            selection = self.app.select(workspace, args or list(STAGES), own)
            docs = {task.name: task.doc for task in own}
            if status and not selection.cases:
                raise SpecError(
                    "-s is for cases", {"given": " ".join(args)}, "doit itself decides whether your own tasks run."
                )
            if args and not listed and all(word in NAMED for word in args):
                args = [
                    f"{len(selection.cases[word]):>6,} cases  {word:<8} {case_tasks.STAGE_DOCS[word]}" for word in args
                ]
                print("\n".join(args))
                return 0
            for line in _cases(workspace, selection, status):
                print(line)
            if not selection.last_stage():
                print_skips(selection.skips)
            for name in selection.foreign:
                print(f"{name:<8}  {docs[name]}")
            return 0
        print_aligned(named(own, self.commands))
        cases, skips = workspace.plan.cases, workspace.plan.skips
        skipped = f" and {len(skips):,} skipped (doit list skipped)" if skips else ""
        example = f". To run some: doit 'profile:{cases[0].operation.name}_*'" if cases else ""
        print(f"\n{units.count(len(cases), 'case')}{skipped}{example}")
        return 0


def _cases(workspace: Workspace, selection: Selection, status: bool) -> Iterator[str]:
    for stage, found in selection.cases.items():
        if not status:
            yield from (f"{stage}:{case.name}" for case in found)
            continue
        if stage == SITES:
            workspace.resolver.asked_for_sites = found
        for chain in workspace.chains(list(found)):
            pending = chain.pending(stage)
            yield f"{stage}:{chain.case.name}  {'to run: ' + ', '.join(pending) if pending else 'made'}"


def named(own: Sequence[Task], commands: Mapping[str, type[Command]]) -> dict[str, str]:
    """Return a dict from name to description, for stages, commands (except `run`) and the user's tasks."""
    lines = dict(case_tasks.STAGE_DOCS)
    lines |= {name: command.doc_purpose for name, command in commands.items() if name != RUN}
    return lines | {task.name: task.doc for task in own if not task.subtask_of and not task.name.startswith("_")}
