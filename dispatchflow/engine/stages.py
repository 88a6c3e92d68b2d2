"""Execute the stages of a case up to `verify`, and make its inputs and expected results."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dispatchflow.cases import provider
from dispatchflow.cases.case import Case
from dispatchflow.cases.module import File, Module
from dispatchflow.engine import printing
from dispatchflow.engine.actions import Action, Data
from dispatchflow.engine.call import LibraryCall, Result, as_is
from dispatchflow.engine.executor import ActionExecutor
from dispatchflow.errors import StoreError, ToolError
from dispatchflow.iree.cpu_features import compiled_for
from dispatchflow.iree.targets import Device
from dispatchflow.keys import Digest
from dispatchflow.operations import Operation
from dispatchflow.store.entries import Record, named_files
from dispatchflow.store.facts import Facts
from dispatchflow.store.store import DamagedObject
from dispatchflow.tools.outcome import ILLEGAL_INSTRUCTION
from dispatchflow.workload import Workload

if TYPE_CHECKING:
    from dispatchflow.operations.api import Array

_log = logging.getLogger(__name__)

_ATTEMPTS = 3


class Artifacts(NamedTuple):
    """The digest of a case's code, and the files and data that are needed to call the code.

    `files` maps file names, such as `module.vmfb`, to digests. `data` has inputs, and expected results if requested."""

    code: Digest
    files: dict[str, Digest]
    data: Data


class Reprinted(NamedTuple):
    """A user's module as text that the compiler printed, with the files that the text names."""

    text: bytes
    objects: dict[str, Digest]
    record: Record


class StageExecutor(ActionExecutor):
    """Executes the actions that a stage needs, and then the stage."""

    def emit(self, case: Case) -> Record:
        program = case.library_program
        if program is None and isinstance(case.operation, Module):
            return self._reprint(case.operation)

        def make(scratch: Path) -> Result:
            if program is None:
                text = case.dispatch.module(self.resolver.syntax).encode()
                return True, None, {"module": self.store.put_bytes(text)}, {}
            if program.problem is not None:
                return False, program.problem, {}, {}
            return True, None, {name: self._put_content(each) for name, each in program.outputs.items()}, {}

        return self.make(self.resolver.emission(case), make)

    def _put_content(self, content: bytes | File) -> Digest:
        from dispatchflow.verification import module_data

        return self.store.put_bytes(content if isinstance(content, bytes) else module_data.content(content))

    def _reprint(self, program: Module) -> Record:
        return self.make(self.resolver.supplies.reprint(program), partial(printing.printed, self, program))

    def compile(self, case: Case) -> Record | None:
        """Compile a case, and return the record.

        Returns None if the module cannot be read, or if it does not have the function that the case calls."""
        resolver, dispatch = self.resolver, case.dispatch
        if isinstance(case.operation, Module):
            if (printed := self.printed(case.operation)) is None:
                return None
            text, objects, dispatch = printed.text, printed.objects, dispatch.printed(printed.record)
            explain = printing.explainer(self, printed.record)
        else:
            text, objects = dispatch.module(resolver.syntax).encode(), {}
            explain = as_is
        packed = resolver.packs_operands(case)
        demanded, missed = dispatch.demanded(packed), partial(dispatch.missed, packed=packed)
        return self.compile_module(
            text, resolver.flags(case), demanded, missed, dispatch.tuning.files, objects, explain
        )

    def printed(self, program: Module) -> Reprinted | None:
        for _ in range(_ATTEMPTS):
            record = self._reprint(program)
            if not record.ok or self.resolver.supplies.declaration(program) is None:
                return None
            try:
                objects = named_files(record.outputs)
                for digest in objects.values():
                    self.store.checked(digest)
                return Reprinted(self.store.checked(record.outputs["module"]).read_bytes(), objects, record)
            except DamagedObject as damaged:
                _say_damaged(damaged, program.label)
        raise self._too_damaged()

    def inputs(self, program: Workload) -> Record | None:
        """Make a workload's inputs, and return their record. Return None if the inputs' types are unknown."""
        action = self.resolver.supplies.inputs_action(program)
        if action is None and isinstance(program, Module) and self.printed(program) is not None:
            # No stage of a library's case prints the module, but the types are in the printed module.
            action = self.resolver.supplies.inputs_action(program)

        def make(scratch: Path) -> Result:
            from dispatchflow.engine import parameters
            from dispatchflow.verification import inputs, module_data

            if isinstance(program, Operation):
                made = ((f"{r}_{i}", array) for r in program.recipes for i, array in enumerate(inputs.made(program, r)))
                return True, None, {name: self._put(array) for name, array in made}, {}
            assert isinstance(program, Module) and action is not None
            weights = parameters.stored(program, action, scratch, self.store, self.resolver.toolchain, self.limits)
            arguments = module_data.arguments(program, action.ingredients["types"])
            outputs = {f"given_{i}": self.store.put_bytes(content) for i, (_, content) in enumerate(arguments)}
            return True, None, outputs | weights, {"arguments": [spelling for spelling, _ in arguments]}

        return self.make(action, make) if action else None

    def expected(self, program: Workload) -> Record | None:
        """Compute expected results. Return the record; None if they are unneeded or an earlier step failed."""
        if not program.compared:
            return None
        if isinstance(program, Module):
            return self._expected_of_module(program)
        assert isinstance(program, Operation)
        action, operands = self.resolver.supplies.expected_action(program), self.resolver.supplies.operands(program)
        if action is None or operands is None:
            return None
        operation, digests = program, operands.digests

        def make(scratch: Path) -> Result:
            from dispatchflow.verification import inputs, power, reference

            types = [(inputs.dtype_of(one.type.element), one.type.shape) for one in operation.operands()]
            outputs: dict[str, Digest] = {}
            for recipe in operation.recipes:
                files = [self.store.checked(digest) for digest in digests[recipe]]
                made = [inputs.read(file, *type) for file, type in zip(files, types, strict=True)]
                outputs |= {name: self._put(array) for name, array in reference.wanted(operation, made, recipe)}
            unseen = "".join(f"{error}\n" for error in power.unseen(operation))
            outputs["unseen"] = self.store.put_bytes(unseen.encode())
            return True, None, outputs, {}

        return self.make(action, make)

    def _expected_of_module(self, program: Module) -> Record | None:
        from dispatchflow.engine import verify_module
        from dispatchflow.verification import module_data

        module_of_reference: Digest | None = None
        if program.against is not None:
            if (printed := self.printed(program)) is None:
                return None
            flags = self.resolver.supplies.reference_flags(program)
            compiled = self.compile_module(printed.text, flags, objects=printed.objects)
            if not compiled.ok:
                return None
            module_of_reference = compiled.outputs["vmfb"]
            self.store.checked(module_of_reference)
        action, declared = self.resolver.supplies.expected_action(program), self.resolver.supplies.declaration(program)
        operands = self.resolver.supplies.operands(program)
        if action is None or declared is None or operands is None:
            return None
        results, data = declared.results, operands

        def make(scratch: Path) -> Result:
            if program.against_library is not None:
                if (why := provider.unpassed(program.against_library, declared.types)) is not None:
                    return False, f"{program.reference_name}: {why}", {}, {}
                return printing.expected(self, program, scratch, len(results))
            if module_of_reference is None:
                made = module_data.expected(program, results)
                types = [made[i][0] if i in made else "" for i in range(len(results))]
                outputs = {str(i): self.store.put_bytes(content) for i, (_, content) in made.items()}
                return True, None, outputs | verify_module.put_types(self.store, types), {}
            device, files = self.resolver.supplies.reference_device(program), {"module.vmfb": module_of_reference}
            place = self.place(scratch, device, files)
            ok, reason, outputs, facts = verify_module.results_of(place, program, data, results)
            return ok, reason if ok else f"{program.reference_name}: {reason}", outputs, facts

        return self.make(action, make)

    def _code(self, case: Case) -> tuple[Digest, dict[str, Digest]] | None:
        """Make a case's code, and return its digest and a dict from file name to digest; None if that fails.

        The files are `module.vmfb`, or the program that calls a library, such as numpy."""
        if (program := case.library_program) is not None:
            emitted = self.emit(case)
            return (self.resolver.call_code(case), program.files(emitted.outputs)) if emitted.ok else None
        compiled = self.compile(case)
        if compiled is None or not compiled.ok:
            return None
        return compiled.facts["code_digest"], {"module.vmfb": compiled.outputs["vmfb"]}

    def artifacts(self, case: Case, expected: bool) -> Artifacts | None:
        """Make the code and data that a call of a case needs, and return them; None if that fails.

        If `expected` is true, the data include the expected results. Damaged or missing files are made again."""
        program, resolver = case.operation, self.resolver
        for _ in range(_ATTEMPTS):
            try:
                if (found := self._code(case)) is None:
                    return None
                code, files = found
                self.inputs(program)
                if expected:
                    self.expected(program)
                data = resolver.supplies.data(program) if expected else resolver.supplies.operands(program)
                if data is None and resolver.supplies.failure(program) is not None:
                    return None
                if data is not None:
                    for digest in (*files.values(), *data.objects):
                        self.store.checked(digest)
                    return Artifacts(code, files, data)
            except DamagedObject as damaged:
                _say_damaged(damaged, case.name)
        raise self._too_damaged()

    def _too_damaged(self) -> StoreError:
        return StoreError(
            "objects are damaged each time they are restored", {"store": self.store.root}, "Check the disk."
        )

    def verify(self, case: Case, device: Device) -> Record | None:
        """Verify a case (docs/verification.md). Return the record; None if a verification is not possible."""
        found = self._verification(case, device)
        return None if found is None else self.make(*found)

    def recheck(self, case: Case, device: Device) -> str | None:
        """Verify a case with the present runtime, and return why it fails. The result is not recorded.

        Returns None if the case passes or cannot be verified here."""
        if self.resolver.settings.verify == "off" or (found := self._verification(case, device)) is None:
            return None
        try:
            with self.store.busy(), self.store.scratch() as scratch:
                ok, reason, _, _ = found[1](scratch)
        except ToolError as error:
            return error.problem
        return None if ok else reason or "failed"

    def _verification(self, case: Case, device: Device) -> tuple[Action, Callable[[Path], Result]] | None:
        from dispatchflow.engine import verify, verify_module

        resolver = self.resolver
        if (found := self.artifacts(case, expected=True)) is None:
            return None
        if (action := resolver.chain(case)["verify"].action) is None:
            return None
        (code, files, data), program = found, case.operation
        tools, is_reference = resolver.toolchain, resolver.supplies.is_reference(case, code)
        ran_with: Facts = {"runtime": tools.runtime_version, "runtime_digest": tools.runtime_digest}
        ran_with = ran_with if case.library is None else {"runtime": resolver.installed(case).version}

        def verdict(scratch: Path) -> Result:
            place = self.place(scratch, device, files)
            if case.library is not None:
                place = LibraryCall.of(place, case, resolver.installed(case))
            if isinstance(program, Operation):
                return verify.verify_operation(place, program, data)
            assert isinstance(program, Module)
            declared = self.resolver.supplies.declaration(program)
            assert declared is not None
            if case.library is not None and (why := provider.unpassed(case.provider, declared.types)) is not None:
                return False, why, {}, {"verification": "not compared"}
            return verify_module.verify_module(place, program, data, declared.results, is_reference)

        def make(scratch: Path) -> Result:
            ok, reason, outputs, facts = verdict(scratch)
            if reason and ILLEGAL_INSTRUCTION in reason and (cpu := compiled_for(resolver.flags(case))):
                reason += f"; it was compiled for {cpu} ('doit devices' shows this machine's CPU)"
            return ok, reason, outputs, {**facts, **ran_with}

        return action, make

    def _put(self, array: Array) -> Digest:
        from dispatchflow.verification import inputs

        return self.store.put_bytes(inputs.stored(array))


def _say_damaged(damaged: DamagedObject, name: str) -> None:
    _log.warning("object %s of %s was damaged or missing; restoring it", damaged, name)
