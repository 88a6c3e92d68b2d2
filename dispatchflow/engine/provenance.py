"""Find a case's sites and the source operations of each site.

Source operations are those that the user wrote. The case is compiled again with a tag in the location of each
operation. The tags that are left in a dispatch show which source operations it computes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dispatchflow.cases.case import Case
from dispatchflow.cases.module import Module
from dispatchflow.engine import actions
from dispatchflow.engine.call import Result, failed
from dispatchflow.engine.stages import StageExecutor
from dispatchflow.iree import command_lines, vmfb
from dispatchflow.iree.flags import FORMED
from dispatchflow.keys import Digest
from dispatchflow.models import provenance, tagged
from dispatchflow.models.site import Program
from dispatchflow.store.entries import Record
from dispatchflow.store.facts import Facts
from dispatchflow.tools import bindings

_OTHER_CODE = "the tagged module compiles to other code than the case's own, so its sites are not those of the case"

_SINCE = "the Python bindings of 3.12 and later read the names of operations"

_PHASES = (("tagged", None, "dispatch-creation", "formed"), ("sites", "dispatch-creation", "flow", "flow"),
           ("flow", "flow", "hal", "hal"), ("hal", "hal", None, "module.vmfb"))  # fmt: skip
"""The runs of the compiler that together compile the tagged module, in order.

Each run has four parts: the input file, the last phase of the previous run, the last phase of this run, and the
output file. None stands for the beginning or the end of the compile. Between the first two runs, the script
`_tagger.py` reads `formed`, tags each dispatch in it, and writes `sites`."""
_FORMING = ("dispatch-creation", "flow")

_Facts = TypeVar("_Facts")


class _Failed(Exception):
    """Raised if a tool fails. `result` is the failed result of the action."""

    def __init__(self, result: Result) -> None:
        super().__init__(result[1])
        self.result = result


@dataclass(frozen=True, slots=True)
class _Labels:
    """The text that has the names and source locations of a module's operations.

    `digest` is the digest of this text. `title` is the file name of the user's source."""

    digest: Digest
    title: str


def of_case(executor: StageExecutor, case: Case) -> Record | None:
    """Return the record of the action that finds a case's sites; None if the case did not compile."""
    assert case.library is None
    compiled = executor.compile(case)
    if compiled is None or not compiled.ok:
        return None
    resolver, program = executor.resolver, case.operation
    if isinstance(program, Module):
        if (printed := executor.printed(program)) is None:
            return None
        text, objects = printed.text, printed.objects
        named = actions.labels_of(program, printed.record.outputs)
    else:
        text, objects, named = case.dispatch.module(resolver.syntax).encode(), {}, None
    labels = _Labels(*named) if named else None
    action = actions.provenance(compiled.key, named)

    def make(scratch: Path) -> Result:
        files = {file.name: file.text.encode() for file in case.dispatch.tuning.files}
        if labels is not None:
            files["labels.mlir"] = _content(executor, program, labels)
        for name, content in {"module.mlir": text, **files}.items():
            (scratch / name).write_bytes(content)
        executor.store.place(scratch, objects)
        title = labels.title if labels else "module.mlir"
        tagging = _Tagging(executor, scratch, resolver.flags(case), command_lines.dump_of(text), title)
        try:
            return tagging.result(compiled.facts["code_digest"])
        except _Failed as failure:
            return failure.result

    return executor.make(action, make)


def _content(executor: StageExecutor, program: Any, labels: _Labels) -> bytes:
    from dispatchflow.verification import module_data

    if labels.digest == program.source.digest:
        return module_data.content(program.source)
    return executor.store.checked(labels.digest).read_bytes()


@dataclass(frozen=True, slots=True)
class _Tagging:
    executor: StageExecutor
    scratch: Path
    flags: tuple[str, ...]
    dump: str
    title: str

    def result(self, code: Digest) -> Result:
        """Compile the module with tags, find its sites, and return the result of this action.

        `code` is the digest of the case's own code. If the tagged module compiles to other code, the result is a
        failure."""
        resolver = self.executor.resolver
        if not resolver.syntax.reads_names:
            return False, f"sites are not available with IREE {resolver.toolchain.version}; {_SINCE}", {}, {}
        found = bindings.bindings_of(resolver.toolchain)
        labels = {"labels": "labels.mlir"} if (self.scratch / "labels.mlir").exists() else {}
        self._read(found, "tag", "module.mlir", facts="source.json", output="tagged", title=self.title, **labels)
        seconds = self._compile(*_PHASES[0])
        self._read(found, "sites", "formed", facts="dispatches.json", output="sites")
        seconds += sum(self._compile(*phase) for phase in _PHASES[1:])
        made = vmfb.inspect((self.scratch / "module.vmfb").read_bytes())
        if made.code_digest != code:
            return False, _OTHER_CODE, {}, {"compile_s": seconds}
        self._read(found, "launches", "hal", facts="launches.json")
        formed, host = self._facts("dispatches.json", tagged.Dispatches), self._facts("launches.json", tagged.Launches)
        try:
            program = provenance.program(self._facts("source.json", tagged.Source), formed, host)
        except ValueError as error:
            return False, str(error), {}, {"compile_s": seconds}
        store = self.executor.store
        outputs = {
            "sites": store.put_bytes(msgspec.json.encode(program)),
            # The locations have the tags `df.op.N` (operation N of the printed module) and `df.site.N` (dispatch N).
            "flow": store.put_file(self.scratch / "flow"),
        }
        facts: Facts = {
            "sites": len(program.sites),
            "operations": len(program.operations),
            "unplaced": len(program.unplaced),
            "unlabelled": program.unlabelled,
            "untagged": sum(not launch.sites for launch in host.launches),
            "unlaunched": len(formed.dispatches) - len({tag for launch in host.launches for tag in launch.sites}),
            "compile_s": seconds,
        }
        return True, None, outputs, facts

    def _compile(self, source: str, begin: str | None, end: str | None, output: str) -> float:
        """Run the compiler's phases after `begin`, up to and including `end`; return the seconds they took.

        Phases that form dispatches are skipped if the flags say that the module's dispatches are already formed."""
        if FORMED in self.flags and end in _FORMING:
            shutil.copyfile(self.scratch / source, self.scratch / output)
            return 0.0
        compiler = self.executor.resolver.toolchain.compiler
        return self._run(
            "compile", command_lines.phase_argv(compiler, self.flags, begin, end, output, self.dump), source
        )

    def _read(self, found: bindings.Bindings, command: str, source: str, **files: str) -> None:
        self._run("tagging", tagged.tagger_argv(found.python, found.folder, command, source, **files), None)

    def _run(self, what: str, argv: tuple[str, ...], stdin: str | None) -> float:
        executor = self.executor
        outcome = executor.run_compiler(argv, self.scratch, stdin)
        if what == "tagging" and outcome.code == bindings.NO_BINDINGS:
            raise FileNotFoundError(f"{bindings.NONE}. {bindings.HINT}")
        if outcome.failure:
            raise _Failed(failed(what, outcome, self.scratch, {}, executor.store, executor.limits))
        return outcome.wall_s

    def _facts(self, name: str, kind: type[_Facts]) -> _Facts:
        return msgspec.json.decode((self.scratch / name).read_bytes(), type=kind)


def program_of(executor: StageExecutor, outputs: Mapping[str, Digest]) -> Program:
    """Return the sites of a case and their source operations.

    `outputs` is the field `outputs` of a record that `of_case` returned. The field `ok` of this record must be true.

    Raises:
        DamagedObject: the output `sites` was damaged or missing. The store has dropped it and the records that name it.
    """
    content = executor.store.checked(outputs["sites"]).read_bytes()
    return msgspec.json.decode(content, type=Program)
