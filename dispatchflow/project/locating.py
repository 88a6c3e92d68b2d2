"""Find the sites with wrong results in a case, by comparison with a reference.

A site is a place of a program that launches a dispatch. Its reference is the same dispatch compiled for another target.
Both get the same operands."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from dispatchflow.cases.case import Case
from dispatchflow.engine import extraction as extracting
from dispatchflow.engine import provenance, site_check, site_states
from dispatchflow.engine.site_check import Operands
from dispatchflow.errors import SpecError, StoreError, ToolError
from dispatchflow.iree.flags import with_formed
from dispatchflow.iree.targets import TARGETS, Device, Target
from dispatchflow.models import extraction, site_choice
from dispatchflow.models.extraction import Extracted
from dispatchflow.models.located import Located, SiteCheck
from dispatchflow.models.site import Program, Site
from dispatchflow.project.bundles import Captured, captured_of, linked_of, made_of
from dispatchflow.project.workspace import Workspace
from dispatchflow.store.entries import Record
from dispatchflow.store.store import DamagedObject
from dispatchflow.tools import machine

_ATTEMPTS = 3
_DEFAULT, _OTHER = "llvm-cpu", "vmvx"
_LATE = "it has no module, because the compiler added its dispatch after all others were formed"


def reference_of(case: Case, given: Target | None) -> Target:
    """Return the target that computes the expected results of a case's sites: `given`, or a default.

    The default is llvm-cpu, or vmvx if the case itself is compiled for llvm-cpu.

    Raises:
        SpecError: `given` is the case's own target.
    """
    if given is None:
        return TARGETS[_OTHER if case.target.backend == _DEFAULT else _DEFAULT]
    if given.name == case.target.name:
        problem = f"reference={given.name} is the target of the case, so both would run the same code"
        other = reference_of(case, None).name
        hint = f"Give another one: reference={other}." if other != given.name else "Give another one."
        raise SpecError(problem, {"case": case.name}, hint)
    return given


def located(workspace: Workspace, case: Case, reference: Target, wanted: Sequence[int] | None) -> Located:
    """Compare the results of a case's sites with the results of a reference for the same operands.

    `reference` is the target for which the sites' dispatches are compiled again. `wanted` has the numbers of the
    sites; None means all.

    Raises:
        SpecError: a library computes the case, a site in `wanted` does not exist, or no site is executed as often as
            the command-line variable `execution` requires.
        ToolError: the case does not compile, nothing can be captured, or the reference has no device.
    """
    site_states.refuse_library(case)
    device = workspace.device(reference, 1)
    if device.absent is not None:
        hint = "doit devices lists the targets that have one."
        raise ToolError(f"the reference {reference.name} has no device", {"found": device.absent}, hint)
    for _ in range(_ATTEMPTS):
        try:
            return _located(workspace, case, reference, device, wanted)
        except DamagedObject:
            continue  # the object's records are dropped, so that the next attempt makes the object again
    raise StoreError("objects are damaged each time they are restored", {"store": workspace.store.root}, "")


def _located(
    workspace: Workspace, case: Case, reference: Target, device: Device, wanted: Sequence[int] | None
) -> Located:
    executor = workspace.executor
    traced = made_of(workspace, case, provenance.of_case(executor, case), "its sites")
    program = provenance.program_of(executor, traced.outputs)
    numbers = [site.number for site in site_choice.numbered(program, wanted, case.name)]
    whole, recipe = _verified(workspace, case)
    captured = captured_of(workspace, case, numbers, recipe)
    if captured.why is not None:
        raise ToolError("no site can be compared", {"case": case.name, "reason": captured.why})
    modules = made_of(workspace, case, extracting.of_flow(executor, traced.outputs["flow"]), "their modules")
    extracted = extracting.extracted_of(executor, modules)
    checking = _Checking(workspace, case, reference, device, program, modules, extracted, captured)
    with ThreadPoolExecutor(min(4, len(machine.cores()))) as pool:
        checks = tuple(pool.map(checking.check, sorted(numbers)))
    found = Located(case.name, reference.name, program, checks, whole)
    return msgspec.structs.replace(found, other=checking.other(found.uncompiled[0].site)) if found.uncompiled else found


def _verified(workspace: Workspace, case: Case) -> tuple[str | None, str | None]:
    """Verify a case. Return why its results are wrong, and the first recipe that leads to a wrong result.

    Both are None if no wrong result is known. The recipe (a way to make inputs) is also None for a user's module."""
    device = workspace.device(case.target, case.threads)
    if device.absent is not None or workspace.settings.verify == "off":
        return None, None
    record = workspace.executor.verify(case, device)
    if record is None or record.facts.get("verification") != "different":
        return None, None
    rungs = record.facts.get("rungs", {})
    recipe = next(
        (name for name, word in rungs.items() if word == "different" and name in case.operation.recipes), None
    )
    return record.reason, recipe


@dataclass(frozen=True, slots=True)
class _Checking:
    """Compares the results of sites with those of the reference. Several threads may call `check` at once."""

    workspace: Workspace
    case: Case
    reference: Target
    device: Device
    program: Program
    modules: Record
    extracted: Extracted
    captured: Captured

    def check(self, number: int) -> SiteCheck:
        site = self._site(number)
        if (missing := self.captured.missing.get(number)) is not None and not self.captured.values.get(number):
            return SiteCheck(number, why=missing)
        if site.dispatch not in self.extracted.dispatches:
            return SiteCheck(number, why=_LATE)
        module = self.extracted.dispatches[site.dispatch]
        operands = self._operands(number, module)
        if isinstance(operands, str):
            return SiteCheck(number, why=operands)
        compiled = self._compiled(module, self.reference)
        return site_check.of_site(self.workspace.executor, number, operands, compiled, self.device)

    def other(self, number: int) -> str | None:
        """Return the name of another target that can compute a site's expected results; None if there is none.

        The target has a device on this machine, and the site's module compiles for it."""
        site = self._site(number)
        assert site.dispatch is not None
        module, own = self.extracted.dispatches[site.dispatch], self.case.target
        left = [target for target in TARGETS.values() if target.name not in (own.name, self.reference.name)]
        # Targets of the case's own backend are tried last, because they share most of the case's code.
        for target in sorted(left, key=lambda target: target.backend == own.backend):
            if self.workspace.device(target, 1).absent is None and self._compiled(module, target).ok:
                return target.name
        return None

    def _operands(self, number: int, module: int) -> Operands | str:
        """Return the captured operands and results of a site, or the reason why they are unknown."""
        values = self.captured.values[number]
        site = self._site(number)
        sweep = extraction.sweep(self.program, self.extracted, module, [site], values)
        if sweep.inputs is None:
            return sweep.why or "its operands were not captured"
        results = [f"out{i}" for i in range(len(self.extracted.modules[module].results))]
        if lost := [result for result in results if result not in values]:
            return self.captured.missing.get(number, f"not captured: {', '.join(lost)}")
        if not results:
            return "it has no results"
        objects, files = self.captured.objects, dict(sweep.files)
        arguments = []
        for word in sweep.inputs:
            type_, given, file = word.partition("=@")
            if given:
                arguments.append((type_, objects[number, files[file]]))
            else:
                arguments.append((f"={word}", self.workspace.store.put_bytes(word.encode())))
        masks = {i: self.captured.undefined.get((number, result)) for i, result in enumerate(results)}
        return Operands(
            tuple(arguments),
            tuple((values[result].type, objects[number, result]) for result in results),
            {i: digest for i, digest in masks.items() if digest is not None},
        )

    def _site(self, number: int) -> Site:
        return next(site for site in self.program.sites if site.number == number)

    def _compiled(self, module: int, target: Target) -> Record:
        executor, supplies = self.workspace.executor, self.workspace.resolver.supplies
        made = self.modules.outputs
        path = executor.store.checked(made.get(extracting.plain(module), made[f"{module}.mlir"]))
        objects = linked_of(self.workspace, self.case, [path])
        flags = supplies.flags_like(target, with_formed(self.case.flags))
        return executor.compile_module(path.read_bytes(), flags, objects=objects)
