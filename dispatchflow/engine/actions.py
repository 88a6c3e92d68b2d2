"""Define actions, which are the steps of the work for a case, such as a compile. See docs/caching.md.

The key of an action is a hash of its ingredients. The ingredients are everything that the outputs depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Any

import msgspec

from dispatchflow.cases import rotating_inputs
from dispatchflow.cases.case import Case
from dispatchflow.cases.module import Module
from dispatchflow.engine import source_files
from dispatchflow.iree.release import Release
from dispatchflow.iree.targets import Device
from dispatchflow.keys import Digest, Form, Key, digest_of, key_of
from dispatchflow.operations import Operation
from dispatchflow.timing.protocols import Protocol
from dispatchflow.workload import Workload

CONFIGURATION_CHECK = 5
"""The version of the code that checks whether the compiler applied the requested tuning.

Raise it when `configurations.parse` or `Dispatch.missed` changes."""

PRINTING = 6
"""The version of the facts that `emit` stores about a user's module. Raise it when they change."""

VERIFICATION = 11
"""The version of the verification. Raise it when the verification accepts other results than before."""


@dataclass(frozen=True)
class Data:
    """The digests of a call's inputs and expected results."""

    digests: Mapping[str, tuple[Digest, ...]]
    """A dict from the name of a set of tensors to the digests of these tensors.

    For example, the set `exact` has the inputs that the recipe `exact` makes. A recipe is a way to make inputs."""
    arguments: tuple[str, ...]
    """The type of each operand in IREE's notation, such as `4x8xf32`; for a scalar, `=` and its value."""
    parameters: tuple[tuple[str, Digest], ...] = ()
    """The files with a module's weights: (value of IREE's option `--parameters=`, the file's digest)."""

    @cached_property
    def measured(self) -> Data:
        """A copy that has only the inputs that are used for measurements."""
        # This data must not contain expected results, because their digests come after those of the inputs.
        recipe, digests = list(self.digests.items())[-1]
        return replace(self, digests={recipe: digests})

    @cached_property
    def forms(self) -> dict[Any, Form]:
        """A cache of `Form` objects, which compute the keys (hashes) of calls that use this data."""
        return {}

    def files(self, recipe: str) -> dict[str, Digest]:
        """Return the files that a call reads, as a dict from file name to digest.

        The files are the inputs that `recipe` (a way to make inputs) makes, and the module's weights."""
        weights = {value.rpartition("=")[2]: digest for value, digest in self.parameters}
        return {f"{recipe}_{i}.bin": digest for i, digest in enumerate(self.digests[recipe])} | weights

    @property
    def objects(self) -> tuple[Digest, ...]:
        return (*chain.from_iterable(self.digests.values()), *(digest for _, digest in self.parameters))

    def inputs(self, recipe: str) -> tuple[str, ...]:
        """Return the value of a tool's option `--input=` for each operand: a file of inputs, or a number."""
        return tuple(
            argument[1:] if argument.startswith("=") else f"{argument}=@{recipe}_{i}.bin"
            for i, argument in enumerate(self.arguments)
        )


class Call(msgspec.Struct, frozen=True):
    """A function, the digest of its code, and the device on which the function is called."""

    code: Digest
    function: str
    device: Device


class Action(msgspec.Struct, frozen=True):
    """One step of the work for a case. `stage` is the step's kind, and `key` is `form.key(*strings)`."""

    stage: str
    key: Key
    form: Form
    strings: tuple[str, ...]

    @property
    def ingredients(self) -> Mapping[str, Any]:
        return self.form.ingredients(*self.strings)


def _action(form: Form, *strings: str) -> Action:
    return Action(form.kind, form.key(*strings), form, strings)


def single(kind: str, **ingredients: Any) -> Action:
    """Return an action whose key is a hash of its kind and these ingredients.

    If many keys differ only in some strings, a `keys.Form` computes them faster."""
    return _action(Form(kind, lambda: ingredients))


_EMIT = Form("emit", lambda module: {"module": module})


def emit(case: Case, syntax: Release) -> Action:
    """Return the action that writes an operation's MLIR module, in the syntax of an IREE release."""
    # The text is generated already here, because the action's key contains the digest of the text.
    return _action(_EMIT, digest_of(case.dispatch.module(syntax).encode()))


def emit_program(program: Digest) -> Action:
    """Return the `emit` action of a case that a library such as numpy computes.

    `program` is the digest of what the library runs: a Python text for an operation, or the files of a model."""
    return _action(_EMIT, program)


def compilations(
    flags: Sequence[str], toolchain: Digest, environment: Mapping[str, str], requested: str | None = None
) -> Form:
    """Return a `keys.Form` that computes a compile action's key from the digest of the module.

    `requested` is the configuration that the compiler must choose. An action fails if the compiler chooses another
    configuration."""
    return Form(
        "compile",
        lambda module: {
            "module": module,
            "flags": tuple(flags),
            "toolchain": toolchain,
            "environment": dict(environment),
            "requested": requested,
            "check": CONFIGURATION_CHECK,
        },
    )


def compilation(module: Digest, form: Form) -> Action:
    return _action(form, module)


def labels_of(program: Workload, emitted: Mapping[str, Digest]) -> tuple[Digest, str] | None:
    """Return (digest, file name) of the MLIR text that names the operations of a user's module.

    The locations in the text are the names. If the user's file is MLIR, this file is the text. If the user's file is a
    model, the text is the output `labelled` of the stage `emit`, but the file name is the model's. Returns None if
    `program` is not a user's module."""
    if not isinstance(program, Module):
        return None
    return emitted.get("labelled", program.source.digest), PurePath(program.source.path).name


def provenance(compiled: Key, labels: tuple[Digest, str] | None) -> Action:
    """Return the action that finds a module's sites, which are the places that launch dispatches.

    The action also finds which of the user's operations each site computes. `compiled` is the key of the compile.
    `labels` is the result of `labels_of`."""
    return single("provenance", compile=compiled, labels=labels, source=sources(*_PROVENANCE))


_TIMES = 2
"""The version of the code that computes the times of sites. Raise it when this computation changes."""
_SCRIPT = ("models/_reading.py", "models/_script.py")
_SITES = tuple(f"models/{n}.py" for n in ("_tagger", "def_use", "kinds", "provenance", "site", "tagged", "work"))
_PROVENANCE = (*_SCRIPT, *_SITES, "engine/provenance.py")
CAPTURE = (*_SCRIPT, *(f"models/{n}.py" for n in ("_capturer", "_dispatches", "captured")), "engine/capture.py")
"""The source files whose text enters the key of a capture (recorded operands and results of sites)."""


def inputs(operation: Operation) -> Action:
    """Return the action that generates an operation's operands for each recipe (a way to make inputs).

    Each output is named after its recipe and the index of the operand: `exact_0`, `random_0`, …"""
    return _data_action("inputs", operation)


def expectation(operation: Operation) -> Action:
    """Return the action that computes the expected results for each recipe (a way to make inputs).

    For a recipe whose results are compared bit by bit, the action has one output with the recipe's name. For other
    recipes, it has two outputs, such as `random_reference` and `random_tolerance`. The output `unseen` lists the kinds
    of kernel errors that verification cannot detect, such as `operand 0 read as zeros`."""
    return _data_action("expected", operation)


def _data_action(kind: str, operation: Operation) -> Action:
    module = type(operation).__module__
    source = sources(*source_files.of_operation(module))
    return _action(_data(kind, source, tuple(source_files.versions_of(module).items())), operation.shape_name)


@cache
def _data(kind: str, source: Digest, versions: Any) -> Form:
    return Form(kind, lambda operation: {"operation": operation, "source": source, **dict(versions)})


def verification(
    call: Call, data: Data, tolerance: str | None, is_reference: bool = False, runtime: Digest | None = None
) -> Action:
    """Return the action that verifies the results of a call.

    Args:
        tolerance: the tolerance of a user's module. None for an operation, because `data` has its tolerances.
        is_reference: whether the verified code also computed the expected results.
        runtime: None for the first verification of the code. If another IREE runtime verifies the code again, this is
            the digest of that runtime.
    """
    more: dict[str, Any] = {"is_reference": True} if is_reference else {}
    more |= {"runtime": runtime} if runtime is not None else {}
    return called("verify", call, data, tolerance=tolerance, protocol=VERIFICATION, **more)


def measurement(call: Call, operands: Data, protocol: Protocol, sets: int | None = None) -> Action:
    """Return the action that measures the time of a call.

    `sets` is the number of copies of the operands for `cache=cold`: each call uses the next copy. None means one copy,
    which stays in the caches."""
    cold = {} if sets is None else {"rotation": (rotating_inputs.VERSION, sets)}
    return called("profile", call, operands, protocol=protocol.id, **cold)


def site_times(call: Call, operands: Data, protocol: Protocol, traced: Digest, runtime: Digest) -> Action:
    """Return the action that measures the time of each site in a call.

    Args:
        traced: the digest of the list of sites, which is the output `sites` of the `provenance` action.
        runtime: the digest of the IREE runtime that records the profiles.
    """
    return called("sites", call, operands, protocol=protocol.id, traced=traced, runtime=runtime, source=_TIMES)


def capture(
    call: Call, operands: Data, flow: Digest, dispatches: tuple[int, ...], sites: tuple[int, ...], execution: int | None
) -> Action:
    """Return the action that records the operands and results of sites.

    Args:
        flow: the digest of the module's bytecode after the compiler phase `flow`.
        sites: for each dispatch in `dispatches`, the number of the site that launches it.
        execution: which execution of a site is recorded, counted from 1. None means the last one.
    """
    chosen = {"dispatches": dispatches, "sites": sites, "execution": execution}
    return called("capture", call, operands, flow=flow, **chosen, source=sources(*CAPTURE))


def called(kind: str, call: Call, data: Data, **rest: Any) -> Action:
    rest |= {"parameters": data.parameters} if data.parameters else {}
    # One `Form` computes the keys of all calls that differ only in the digest of their code.
    place = (kind, call.function, call.device.digest, *rest.values())
    if (form := data.forms.get(place)) is None:
        shared = (call.function, tuple(call.device.identity.items()), call.device.threads, tuple(rest.items()))
        ordered = dict(sorted(data.digests.items()))
        counts = tuple(zip(ordered, map(len, ordered.values()), strict=True))
        digests = list(chain.from_iterable(ordered.values()))
        form = data.forms[place] = _call(kind, len(data.arguments), counts, *shared).around(data.arguments, digests)
    return _action(form, call.code)


@cache
def _call(
    kind: str, operands: int, counts: tuple[tuple[str, int], ...], function: str, device: Any, threads: int, rest: Any
) -> Form:
    def ingredients(*strings: str) -> dict[str, Any]:
        left = iter(strings)
        return {
            "arguments": tuple(islice(left, operands)),
            "code": next(left),
            "data": {name: tuple(islice(left, count)) for name, count in counts},
            "function": function,
            "device": dict(device),
            "threads": threads,
            **dict(rest),
        }

    return Form(kind, ingredients)


@cache
def sources(*names: str) -> Digest:
    """Return the digest of the text of source files.

    Any edit of a file, even of a comment, changes the digest, and therefore every key that is computed from it."""
    folder = Path(__file__).parent.parent
    return Digest(key_of("source", {name: (folder / name).read_bytes() for name in names}))
