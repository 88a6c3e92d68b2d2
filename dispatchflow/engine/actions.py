"""Build a case's actions (steps such as a compile) and their keys; see docs/caching.md.

A key is a hash of an action's ingredients: everything that its outputs depend on."""

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
"""Version of the check by `configurations.parse` and `Dispatch.missed`. Raise it when they change."""

PRINTING = 5
"""Version of the facts that are recorded when a user's module is printed. Raise it when they change."""

VERIFICATION = 8
"""Version of the verification. Raise it when the verification accepts different results than before."""


@dataclass(frozen=True)
class Data:
    """The digests of a call's inputs and expected results. Keys contain these digests."""

    digests: Mapping[str, tuple[Digest, ...]]
    """Name of a set of tensors (`exact`, `given`, `expected_…`) → the digest of each tensor."""
    arguments: tuple[str, ...]
    """The type of each operand in the syntax of IREE's tools, `4x8xf32`; for a scalar, `=` and its value."""
    parameters: tuple[tuple[str, Digest], ...] = ()
    """The files with a module's weights: (value of `--parameters=`, digest of the file)."""

    @cached_property
    def measured(self) -> Data:
        """This data with the tensors of the last recipe only, which measurements use."""
        recipe, digests = list(self.digests.items())[-1]
        return replace(self, digests={recipe: digests})

    @cached_property
    def forms(self) -> dict[Any, Form]:
        """A cache of `keys.Form` objects, which compute the keys of actions that differ only in their code."""
        return {}

    def files(self, recipe: str) -> dict[str, Digest]:
        """Return the files of a call as name → digest: the tensors of a recipe, and the weights."""
        weights = {value.rpartition("=")[2]: digest for value, digest in self.parameters}
        return {f"{recipe}_{i}.bin": digest for i, digest in enumerate(self.digests[recipe])} | weights

    @property
    def objects(self) -> tuple[Digest, ...]:
        """The digests of all tensors and of all files with weights."""
        return (*chain.from_iterable(self.digests.values()), *(digest for _, digest in self.parameters))

    def inputs(self, recipe: str) -> tuple[str, ...]:
        """Return the values of a tool's option `--input=`, one for each operand."""
        return tuple(
            argument[1:] if argument.startswith("=") else f"{argument}=@{recipe}_{i}.bin"
            for i, argument in enumerate(self.arguments)
        )


class Call(msgspec.Struct, frozen=True):
    """The digest of some code, a function in it, and the device that the function is called on."""

    code: Digest
    function: str
    device: Device


class Action(msgspec.Struct, frozen=True):
    """One step of the work, such as a compile; equal ingredients give equal keys and equal outputs."""

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
    """Build an action of a kind of which there are few; its key is computed without a `keys.Form`."""
    return _action(Form(kind, lambda: ingredients))


_EMIT = Form("emit", lambda module: {"module": module})


def emit(case: Case, syntax: Release) -> Action:
    """Return the action that emits an operation's module; its key depends only on the module's text."""
    return _action(_EMIT, digest_of(case.dispatch.module(syntax).encode()))


def emit_program(program: Digest) -> Action:
    """Return the action that emits a library's program; its key depends only on the program's digest."""
    return _action(_EMIT, program)


def compilations(
    flags: Sequence[str], toolchain: Digest, environment: Mapping[str, str], requested: str | None = None
) -> Form:
    """Return a `keys.Form` for compile actions that differ only in their module.

    `requested` is the configuration that the compiler must choose (`Dispatch.demanded`). If it chooses another one, the
    action fails."""
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
    """Return the digest of the text with the source's locations, and the source's file name.

    For an imported model, the text is an output of the `emit` action, whose outputs are `emitted`. Otherwise it is the
    user's file. An operation has neither; the result is None."""
    if not isinstance(program, Module):
        return None
    return emitted.get("labelled", program.source.digest), PurePath(program.source.path).name


def provenance(compiled: Key, labels: tuple[Digest, str] | None) -> Action:
    """Return the action that finds a module's sites (dispatch launches) and their source operations.

    Args:
        compiled: the key of the compile, which covers the printed module, flags, toolchain and environment.
        labels: what `labels_of` returns; None if the compiled module itself has the source's locations.
    """
    return single("provenance", compile=compiled, labels=labels, source=sources(*_PROVENANCE))


_TIMES = 2
"""Version of the computation of the sites' times. Raise it when the computation changes."""
_SCRIPT = ("models/_reading.py", "models/_script.py")
_SITES = tuple(f"models/{n}.py" for n in ("_tagger", "def_use", "kinds", "provenance", "site", "tagged", "work"))
_PROVENANCE = (*_SCRIPT, *_SITES, "engine/provenance.py")
CAPTURE = (*_SCRIPT, *(f"models/{n}.py" for n in ("_capturer", "_dispatches", "captured")), "engine/capture.py")
"""The files whose text enters the key of a capture."""


def inputs(operation: Operation) -> Action:
    """Return the action that generates an operation's operands for each recipe.

    The outputs are named after the recipe and the index of the operand: `exact_0`, `random_0`, …."""
    return _data_action("inputs", operation)


def expectation(operation: Operation) -> Action:
    """Return the action that computes an operation's expected results for each recipe.

    A recipe whose results are compared bit by bit has one output, with the recipe's name. Any other recipe has two,
    such as `random_reference` and `random_tolerance`. The output `unseen` has a line for each error that no recipe
    would show (`verification.power`)."""
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
    """Return the action that verifies a call.

    Args:
        call: the code, its function and the device.
        data: inputs and expected results.
        tolerance: the tolerance of a user's module; None for an operation, whose tolerances are part of the data.
        is_reference: whether this code also computed the expected results.
        runtime: the digest of a runtime that repeats the verification; None for the first verification.
    """
    more: dict[str, Any] = {"is_reference": True} if is_reference else {}
    more |= {"runtime": runtime} if runtime is not None else {}
    return called("verify", call, data, tolerance=tolerance, protocol=VERIFICATION, **more)


def measurement(call: Call, operands: Data, protocol: Protocol, sets: int | None = None) -> Action:
    """Return the action that measures a call.

    `sets` is the number of copies of the operands for `cache=cold`: each call uses the next copy. It is None for one
    copy, which stays in the caches."""
    cold = {} if sets is None else {"rotation": (rotating_inputs.VERSION, sets)}
    return called("profile", call, operands, protocol=protocol.id, **cold)


def site_times(call: Call, operands: Data, protocol: Protocol, traced: Digest, runtime: Digest) -> Action:
    """Return the action that measures the sites of a call.

    Args:
        call: the code, its function and the device.
        operands: the inputs.
        protocol: the number of blocks (benchmark processes), and their length.
        traced: the digest of the program's sites, which is the output `sites` of `provenance`.
        runtime: the digest of the runtime that records the profiles.
    """
    return called("sites", call, operands, protocol=protocol.id, traced=traced, runtime=runtime, source=_TIMES)


def capture(
    call: Call, operands: Data, flow: Digest, dispatches: tuple[int, ...], sites: tuple[int, ...], execution: int | None
) -> Action:
    """Return the action that captures the operands and results of sites.

    Args:
        call: the code, its function and the device.
        operands: the inputs of one recipe.
        flow: the digest of the module after the compiler's phase `flow`, which is an output of `provenance`.
        dispatches: the numbers of the dispatches that are captured.
        sites: for each of these dispatches, the number of its site.
        execution: which execution of each site, from 1; None for the last one.
    """
    chosen = {"dispatches": dispatches, "sites": sites, "execution": execution}
    return called("capture", call, operands, flow=flow, **chosen, source=sources(*CAPTURE))


def called(kind: str, call: Call, data: Data, **rest: Any) -> Action:
    rest |= {"parameters": data.parameters} if data.parameters else {}
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
    """Return the digest of source files' text: an ingredient of the actions that run this code.

    After any edit, even of a comment, these actions run again. Later actions run again only if an output changed."""
    folder = Path(__file__).parent.parent
    return Digest(key_of("source", {name: (folder / name).read_bytes() for name in names}))
