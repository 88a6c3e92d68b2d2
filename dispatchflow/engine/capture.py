"""Capture the exact operands and results of a case's sites in one call of the case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from filecmp import cmp
from pathlib import Path
from typing import cast

import msgspec

from dispatchflow import units
from dispatchflow.cases.case import Case
from dispatchflow.cases.module import Module, output_names
from dispatchflow.engine import actions, provenance
from dispatchflow.engine.actions import Data
from dispatchflow.engine.call import ModuleCall, Result, failed
from dispatchflow.engine.stages import Artifacts, StageExecutor
from dispatchflow.errors import SpecError
from dispatchflow.iree import command_lines
from dispatchflow.iree.targets import Device
from dispatchflow.keys import Digest
from dispatchflow.models import captured, site_choice
from dispatchflow.models.captured import Capture, Capturing, Missing
from dispatchflow.models.site import Program, Site
from dispatchflow.store.entries import Record
from dispatchflow.store.facts import Facts
from dispatchflow.store.store import DamagedObject
from dispatchflow.tools import bindings

LIMIT_BYTES = 2**30
"""The largest total size of the captured operands and results, if the caller gives no limit."""


class _Failed(Exception):
    """Raised if the operands and results of sites cannot be captured, or if a tool fails.

    `result` is the result of the capture: a `call.Result` that describes the failure."""

    def __init__(self, result: Result) -> None:
        super().__init__(result[1])
        self.result = result


def of_case(
    executor: StageExecutor,
    case: Case,
    sites: Sequence[int] | None = None,
    execution: int | None = None,
    limit_bytes: int = LIMIT_BYTES,
    recipe: str | None = None,
) -> Record | None:
    """Call a case, capture the operands and results of its sites, and return the record of this step.

    Returns None if the case did not compile, or if its inputs cannot be made. If the sites cannot be found, the
    record has the reason.

    The outputs of the record are the captured values, such as `3.out1` (result 1 of site 3). If some elements of a
    value depend on unwritten memory, another output, such as `3.out1.undefined`, is the mask of these elements.
    `capture_of` returns a description of the captured values.

    Args:
        sites: the numbers of the sites to capture; None for all.
        execution: which execution of each site to capture, from 1; None for the last.
        limit_bytes: the largest total size of the captured values.
        recipe: the name of the set of inputs; None for the first set.

    Raises:
        SpecError: `execution` is less than 1, or a number in `sites` is not the number of a site.
    """
    if execution is not None and execution < 1:
        raise SpecError(f"execution={execution} does not exist", {"first": "execution=1"})
    traced, program = _traced(executor, case)
    if traced is None or program is None:
        return traced
    found = executor.artifacts(case, expected=False)
    if found is None:
        return None
    function = case.operation.function
    chosen, missing = chosen_sites(program, function, sites, case.name)
    recipe = recipe or next(iter(found.data.digests))
    data = replace(found.data, digests={recipe: found.data.digests[recipe]})
    device, flow = executor.resolver.chain(case).device, traced.outputs["flow"]
    printed = executor.printed(case.operation) if isinstance(case.operation, Module) else None
    objects = printed.objects if printed else {}
    call = actions.Call(found.code, function, device)
    numbers = {site.dispatch: site.number for site in chosen if site.dispatch is not None}
    action = actions.capture(call, data, flow, tuple(numbers), tuple(numbers.values()), execution)

    def make(scratch: Path) -> Result:
        if device.absent is not None:
            return False, device.absent, {}, {"repeatable": False}
        one = _Capturing(executor, case, scratch, device, found, data, objects, numbers, execution, limit_bytes)
        executor.store.place(scratch, {"flow": flow})
        try:
            return one.result(missing)
        except _Failed as failure:
            return failure.result

    return executor.make(action, make)


def _traced(executor: StageExecutor, case: Case) -> tuple[Record | None, Program | None]:
    """Find the sites of a case. Return the record of this step, and the description of the sites.

    Both are None if the case did not compile. The description is None if the sites cannot be found."""
    for attempt in range(2):
        traced = provenance.of_case(executor, case)
        if traced is None or not traced.ok:
            return traced, None
        try:
            executor.store.checked(traced.outputs["flow"])
            return traced, provenance.program_of(executor, traced.outputs)
        except DamagedObject:
            # The store has removed the damaged output and its record, so a second attempt makes both again.
            if attempt:
                raise
    raise AssertionError


def capture_of(record: Record) -> Capture:
    """Return the description of the captured tensors.

    `record` is the record of a successful capture, returned by `of_case`."""
    return msgspec.convert(record.facts, Capture)


def chosen_sites(
    program: Program, function: str, sites: Sequence[int] | None, case: str
) -> tuple[list[Site], list[Missing]]:
    """Choose the requested sites whose operands and results can be captured.

    Returns these sites, and a `Missing` with the reason for each requested site that cannot be captured. `sites` has
    the requested numbers; None requests all sites. `function` is the name of the function to call. `case` is the case's
    name, for error messages.

    Raises:
        SpecError: a number in `sites` is not the number of a site.
    """
    launched = {site.number for site in program.called_by(function)}
    chosen, missing = [], []
    for site in program.sites if sites is None else site_choice.numbered(program, sites, case):
        if site.number not in launched:
            missing.append(Missing(site.number, None, f"a call of {function} does not launch it: {site.function} does"))
        elif site.dispatch is None:
            missing.append(Missing(site.number, None, "the compiler made it after phase flow"))
        else:
            chosen.append(site)
    return chosen, missing


@dataclass(frozen=True, slots=True)
class _Capturing:
    executor: StageExecutor
    case: Case
    scratch: Path
    device: Device
    found: Artifacts
    data: Data
    objects: Mapping[str, Digest]
    """A mapping from file name to digest, for the files to which the module refers."""
    sites: Mapping[int, int]
    """A mapping from the number of a dispatch to the number of the captured site that launches it."""
    execution: int | None
    limit_bytes: int

    def result(self, missing: Sequence[Missing]) -> Result:
        plain = self._plain()
        self._place_files()
        made = self._compiled("first", fill=0)
        found, contents = self._called("first", made, plain)
        masks: dict[str, bytes] = {}
        if made.undefined:
            _, others = self._called("second", self._compiled("second", fill=1), plain)
            found, masks = captured.with_fills(found, contents, others)
        found = msgspec.structs.replace(found, missing=(*found.missing, *missing))
        outputs = {tensor.name: self._put(contents[tensor.name]) for tensor in found.tensors}
        outputs |= {name: self._put(content) for name, content in masks.items()}
        facts = {**msgspec.to_builtins(found), "bytes": found.nbytes, "execution": self.execution}
        return True, None, outputs, cast(Facts, facts)

    def _put(self, content: bytes) -> Digest:
        return self.executor.store.put_bytes(content)

    def _plain(self) -> list[Path]:
        """Call the case's unchanged code twice, and return the files with the first call's results.

        Raises:
            _Failed: a call failed, or the results of the two calls differ.
        """
        place = self._place("plain", self.found.files)
        program = self.case.operation
        declared = self.executor.resolver.supplies.declaration(program) if isinstance(program, Module) else None
        names = output_names(declared.results if declared else [""])
        again = place.again()
        assert again is not None
        second = [f"again_{name}" for name in names]
        self._call(place, names, program.function)
        self._call(again, second, program.function)
        for index, (one, other) in enumerate(zip(names, second, strict=True)):
            if not cmp(place.scratch / one, place.scratch / other, shallow=False):
                why = "a race, or memory that was never written"
                raise _refused(f"the program's result {index} differs from call to call ({why})")
        return [place.scratch / name for name in names]

    def _place_files(self) -> None:
        for file in self.case.dispatch.tuning.files:
            (self.scratch / file.name).write_text(file.text, encoding="utf-8", newline="")
        self.executor.store.place(self.scratch, self.objects)

    def _place(self, name: str, files: Mapping[str, Digest]) -> ModuleCall:
        folder = self.scratch / name
        folder.mkdir()
        return self.executor.place(folder, self.device, files)

    def _call(self, place: ModuleCall, names: Sequence[str], function: str) -> None:
        (recipe,) = self.data.digests
        if (failure := place.call(self.data, recipe, names, function)) is not None:
            ok, reason, outputs, facts = failure
            facts.pop("verification", None)
            raise _Failed((ok, reason, outputs, facts))

    def _compiled(self, name: str, fill: int) -> Capturing:
        """Compile a copy of the case's module that also returns the captured sites' operands and results.

        The copy is the file `NAME.vmfb`. Each of its uninitialized tensors is filled with `fill`, 0 or 1. Returns a
        description of what the copy captures."""
        executor, toolchain = self.executor, self.executor.resolver.toolchain
        found = bindings.bindings_of(toolchain)
        function, numbers = self.case.operation.function, tuple(self.sites)
        argv = captured.capturer_argv(found.python, found.folder, function, numbers, self.execution, fill)
        self._run("capturing", argv, None)
        made = msgspec.json.decode((self.scratch / "capturing.json").read_bytes(), type=Capturing)
        self._check_size(made.nbytes())
        flags, output = executor.resolver.flags(self.case), f"{name}.vmfb"
        argv = command_lines.phase_argv(toolchain.compiler, flags, "flow", None, output, dump="-")
        self._run("compile", argv, "capturing")
        return made

    def _check_size(self, nbytes: int) -> None:
        if nbytes > self.limit_bytes:
            has = f"the operands and results of {units.count(len(self.sites), 'site')} are {units.size(nbytes)}"
            limit = f"limit={units.size(self.limit_bytes)}"
            raise _refused(f"{has}, more than {limit}; choose fewer sites, or raise limit=")

    def _run(self, what: str, argv: tuple[str, ...], stdin: str | None) -> None:
        outcome = self.executor.run_compiler(argv, self.scratch, stdin)
        if what == "capturing" and outcome.code == bindings.NO_BINDINGS:
            raise FileNotFoundError(f"{bindings.NONE}. {bindings.HINT}")
        if outcome.failure:
            raise _Failed(failed(what, outcome, self.scratch, {}, self.executor.store, self.executor.limits))

    def _called(self, name: str, made: Capturing, plain: Sequence[Path]) -> tuple[Capture, dict[str, bytes]]:
        """Call `NAME.vmfb`, a copy of the program that also returns operands and results of sites.

        Returns a description of the operands and results, and a dict from their names, such as `3.in0`, to their
        bytes. `plain` has the files with the results of the unchanged code.

        Raises:
            _Failed: the call failed, its results differ from `plain`, or the captured values exceed the limit.
        """
        place = self._place(name, {})
        (self.scratch / f"{name}.vmfb").rename(place.scratch / "module.vmfb")
        results = [f"result_{i}.bin" for i in range(len(made.results))]
        slots = [f"slot_{i}.bin" for i in range(len(made.slots))]
        self._call(place, [*results, *slots], captured.FUNCTION)
        for index, (mine, other) in enumerate(zip(results, plain, strict=True)):
            if not cmp(place.scratch / mine, other, shallow=False):
                raise _refused(f"result {index} of the program is not the same while its sites are captured")
        self._check_size(sum((place.scratch / slot).stat().st_size for slot in slots))
        return captured.capture(
            made, self.sites, lambda slot: (place.scratch / slots[slot]).read_bytes(), self.execution
        )


def _refused(reason: str) -> _Failed:
    """Return an exception that says why nothing is captured.

    The fact `repeatable` is False: the failure may not happen again, so the next run tries again."""
    return _Failed((False, f"not captured: {reason}", {}, {"repeatable": False}))
