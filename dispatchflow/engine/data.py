"""Find the inputs and expected results of workloads, and the actions that make them.

A workload is what a case computes: an operation or a user's module. An action is one step of the work, such as a
compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dispatchflow.cases.case import Case
from dispatchflow.cases.module import Module
from dispatchflow.engine import actions, module_actions
from dispatchflow.engine.actions import Action, Data
from dispatchflow.iree import flags
from dispatchflow.iree.cpu_features import HostCpu
from dispatchflow.iree.release import syntax_of
from dispatchflow.iree.targets import Device, Target
from dispatchflow.keys import Digest
from dispatchflow.mlir.functions import Declaration, from_facts
from dispatchflow.operations import Operation
from dispatchflow.workload import Workload

if TYPE_CHECKING:
    from dispatchflow.iree.toolchain import Toolchain
    from dispatchflow.libraries.installed import Installed
    from dispatchflow.store.entries import Reader, RecordHead


class DataResolver:
    """Finds the inputs and expected results of operations and of users' modules in the store's records.

    `again` is a function that takes the record of a failed action. It returns why the action is to be tried again, or
    None if it is not."""

    def __init__(
        self,
        reader: Reader,
        toolchain: Toolchain,
        host: HostCpu,
        environment: Mapping[str, str],
        device_of: Callable[[Target, int | None], Device],
        again: Callable[[RecordHead], str | None],
        installed: Callable[[str], Installed | None],
        frozen: bool = False,
    ) -> None:
        self._reader, self._toolchain, self._host = reader, toolchain, host
        self._environment, self._device_of, self._again = environment, device_of, again
        self.installed = installed
        self._known: dict[str | Workload, tuple[Data | None, Data | None]] | None = {} if frozen else None
        """A dict from a module or operation to what `operands` and `data` return; None if nothing is cached."""
        self._reprints: dict[Module, Action] = {}

    def of_snapshot(self, reader: Reader) -> DataResolver:
        """Return a resolver that reads from a snapshot of the records.

        A snapshot never changes, so the new resolver caches what it finds."""
        return DataResolver(
            reader, self._toolchain, self._host, self._environment, self._device_of, self._again, self.installed,
            frozen=True,
        )  # fmt: skip

    def operands(self, program: Workload) -> Data | None:
        """Return the inputs of an operation or module; None if the store does not have them."""
        return self._made(program)[0]

    def data(self, program: Workload) -> Data | None:
        """Return the inputs and expected results of an operation or module.

        Returns None if the store does not have all of them. If the results are not compared with anything, only the
        inputs are returned."""
        return self._made(program)[1]

    def _made(self, program: Workload) -> tuple[Data | None, Data | None]:
        if self._known is None:
            return self._found(program)
        key = program if type(program) is Module else program.shape_name
        if (found := self._known.get(key)) is None:
            self._known[key] = found = self._found(program)
        return found

    def _found(self, program: Workload) -> tuple[Data | None, Data | None]:
        operands = self._operands(program)
        if operands is None or not program.compared:
            return operands, operands
        expected = self._record(self.expected_action(program))
        if expected is None or not expected.ok:
            return operands, None
        wanted = {f"expected_{name}": (digest,) for name, digest in expected.outputs.items() if name != "log"}
        return operands, replace(operands, digests={**operands.digests, **wanted})

    def _operands(self, program: Workload) -> Data | None:
        inputs = self._record(self.inputs_action(program))
        if inputs is None or not inputs.ok:
            return None
        if isinstance(program, Operation):
            arguments = tuple([operand.type.passed.spelling for operand in program.operands()])
        else:
            arguments = tuple(inputs.facts["arguments"])
        made, indices = inputs.outputs, range(len(arguments))
        digests = {recipe: tuple([made[f"{recipe}_{i}"] for i in indices]) for recipe in program.recipes}
        if type(program) is not Module or not program.parameters:  # runs for every case; isinstance is slow
            return Data(digests, arguments)
        weights = zip(program.parameter_values, program.parameter_names, strict=True)
        return Data(digests, arguments, tuple((value, made[name]) for value, name in weights))

    def _record(self, action: Action | None) -> RecordHead | None:
        return self._reader.found(action.key) if action else None

    def actions(self, program: Workload) -> list[Action]:
        """Return the actions that make the inputs and expected results of an operation or module.

        An action that depends on the result of an earlier action is left out until that result exists."""
        found = [self.inputs_action(program), self.expected_action(program)]
        if isinstance(program, Module):
            found.append(self._reference_compile(program))
        return [action for action in found if action]

    def inputs_action(self, program: Workload) -> Action | None:
        """Return the action that makes the inputs of an operation or module.

        Returns None for a user's module if the compiler has not printed it, or if it does not have the function to
        call."""
        if isinstance(program, Operation):
            return actions.inputs(program)
        assert isinstance(program, Module)
        printed, declared = self.printed(program), self.declaration(program)
        return (
            module_actions.arguments(program, declared.inputs, printed.outputs["module"])
            if printed and declared
            else None
        )

    def expected_action(self, program: Workload) -> Action | None:
        """Return the action that makes the expected results of an operation or module.

        Returns None if the module's results are not compared with anything. Also returns None if the action needs the
        output of an earlier action, and this output does not exist yet."""
        if isinstance(program, Operation):
            return actions.expectation(program)
        assert isinstance(program, Module)
        if (declared := self.declaration(program)) is None:
            return None
        if program.expected:
            return module_actions.expected_files(program, declared.results)
        if program.against_library is not None:
            if (given := self._operands(program)) is None:
                return None
            return module_actions.expected_from_library(
                program, self.version(program.against_library), given, declared.results
            )
        compiled, operands = self._record(self._reference_compile(program)), self._operands(program)
        if compiled is None or compiled.code is None or not compiled.ok or operands is None:
            return None
        call = actions.Call(compiled.code, program.function, self.reference_device(program))
        return module_actions.expected_from(call, operands, declared.results)

    # --- only for a user's module

    def reprint(self, program: Module) -> Action:
        if (found := self._reprints.get(program)) is None:
            version = None if program.importer is None else self.version(program.importer)
            self._reprints[program] = found = module_actions.reprint(program, self._toolchain.digest, version)
        return found

    def version(self, package: str) -> str:
        """Return the version of an installed package.

        Planning skips the cases whose package is missing, so `package` is always installed."""
        found = self.installed(package)
        assert found is not None
        return found.version

    def printed(self, program: Module) -> RecordHead | None:
        """Return the record of the action in which the compiler prints a user's module.

        Returns None if the action has no record, or if it failed."""
        found = self._record(self.reprint(program))
        return found if found and found.ok else None

    def declaration(self, program: Module) -> Declaration | None:
        """Return the types of the inputs and results of a module's function.

        If the compiler's flags turn f64 into f32, the types have f32. Returns None if `printed` returns None,
        or if the module does not have the function."""
        written = self._written(program)
        return written.demoted if written is not None and flags.demotes(program.meaning) else written

    def _written(self, program: Module) -> Declaration | None:
        printed = self.printed(program)
        return from_facts(printed.facts["functions"]).get(program.function) if printed else None

    def reference_flags(self, program: Module) -> tuple[str, ...]:
        assert program.against is not None
        return self.flags_like(program.against, program.meaning)

    def flags_like(self, target: Target, given: flags.Flags) -> tuple[str, ...]:
        """Return the flags with which a module is compiled for `target` to compute expected results.

        `given` has the flags of the case. The result has the flags of `target`, and the flags in `given` that
        `flags.of_meaning` selects."""
        own = target.resolved_flags(self._host, syntax_of(self._toolchain.version))
        return flags.behind(own, flags.of_meaning(given))

    def reference_device(self, program: Module) -> Device:
        """Return the single-threaded device on which a module's expected results are computed."""
        assert program.against is not None
        return self._device_of(program.against, 1)

    def is_reference(self, case: Case, code: Digest | None) -> bool:
        """Return whether a case's expected results come from the same code or library as its results.

        `code` is the digest of the case's code; None if the case has no code yet."""
        program = case.operation
        if type(program) is not Module or code is None:  # runs for every case; isinstance is slow
            return False
        if program.against is None:
            return program.against_library == case.provider
        made = self._record(self._reference_compile(program))
        return made is not None and made.code == code

    def absent(self, program: Workload) -> str | None:
        """Return why this machine cannot compute the expected results of `program`; None if it can."""
        if type(program) is not Module or program.against is None:  # runs for every case; isinstance is slow
            return None
        lacking = self.reference_device(program).absent
        return None if lacking is None else f"{program.reference_name}: {lacking}"

    def _reference_compile(self, program: Module) -> Action | None:
        """Return the action that compiles a module for the target that computes its expected results.

        Returns None if there is no such target, or if the module's stage `emit` has not succeeded."""
        printed = self.printed(program)
        if program.against is None or printed is None:
            return None
        compiled = actions.compilations(self.reference_flags(program), self._toolchain.digest, self._environment)
        return actions.compilation(printed.outputs["module"], compiled)

    def failure(self, program: Workload) -> str | None:
        """Return why the inputs or expected results of `program` cannot be made.

        Returns None if no failure is recorded, or if the failed action is to be tried again."""
        if isinstance(program, Module):
            reference = self._record(self._reference_compile(program))
            if reference is not None and not reference.ok and self._again(reference) is None:
                return f"{program.reference_name}: {reference.reason}"
            printed = self._record(self.reprint(program))
            if printed is not None and not printed.ok and self._again(printed) is None:
                return printed.reason
        for action in (self.inputs_action(program), self.expected_action(program)):
            record = self._record(action)
            if record is not None and not record.ok and self._again(record) is None:
                return f"{record.reason}{self._demotion(program)}"
        return None

    def _demotion(self, program: Workload) -> str:
        """Return the end of an error message: a note that the case's flags change the module's f64 to f32.

        The text is empty if the flags do not change f64."""
        if type(program) is not Module or self._written(program) == self.declaration(program):
            return ""
        return f"; the case's {flags.quoted(program.meaning)} makes f64 f32, also in the function's types"
