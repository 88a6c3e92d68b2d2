"""Turn each module that `_extractor.py` wrote for a program's sites into a sweep of a spec.

A site is a place of the program that launches a dispatch. A sweep is a `[[sweep]]` table of a spec in TOML."""

from __future__ import annotations

import struct
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import msgspec

from dispatchflow.mlir.functions import spelling
from dispatchflow.models.site import Program, Site

FUNCTION = "main"
"""The name of the function in an extracted module."""
_SCRIPT = Path(__file__).with_name("_extractor.py")
_SCALARS = {"index": "<q", "i64": "<q", "i32": "<i", "i16": "<h", "i8": "<b", "i1": "<?", "f64": "<d", "f32": "<f"}
_INDICES = ("i32", "i64")
_UNUSABLE = {
    "encoding": "its operands have an encoding, a layout that the compiler chooses later, so no function can take them",
    "complex<": "its operands or results are complex numbers, which a spec cannot describe",
}
"""A part of an MLIR type → why a module with such an argument or result has no sweep."""


class Argument(msgspec.Struct, frozen=True):
    """One argument of the function in an extracted module. The function launches one dispatch."""

    type: str
    """The argument's MLIR type: `tensor<4x?xf32>`, `index`."""
    value: str
    """The operand (`in0`) that is passed, or the operand or result (`out0`) one of whose sizes is passed.

    It is `workload0` if the argument is a number that occurs only in the dispatch's workload."""
    dim: int | None = None
    """The dimension of `value` whose size the argument is; None if the argument is `value` itself."""


class Extract(msgspec.Struct, frozen=True):
    """An extracted module, with one executable and a function that launches one of its exports."""

    executable: str
    export: str
    arguments: tuple[Argument, ...]
    results: tuple[str, ...]
    """The types of the results in MLIR."""


class Extracted(msgspec.Struct, frozen=True):
    """The modules that `_extractor.py` wrote; module N is its file `N.mlir`."""

    modules: tuple[Extract, ...]
    dispatches: dict[int, int]
    """Number of a dispatch (`models.site.Site.dispatch`) → number of its module."""


class Value(msgspec.Struct, frozen=True):
    """A captured operand or result."""

    type: str
    """The type with the sizes at run time, `4x8xf32`; `index` or `i32` for a scalar."""
    content: bytes | None = None
    """The bytes of a scalar, little-endian; None for a tensor, whose bytes are in a file."""
    undefined: bool = False
    """Whether some elements depend on memory that the program never wrote, so that they are arbitrary."""


class Sweep(msgspec.Struct, frozen=True):
    """A sweep of a spec for one extracted module, with the files of its inputs and results."""

    site: Site
    same: tuple[int, ...]
    """The numbers of the other sites that launch the same module."""
    module: int
    """The index in `Extracted.modules`."""
    name: str
    """The stem of the sweep's files: `s01`."""
    inputs: tuple[str, ...] | None
    """The spec's word `inputs`; None if no inputs are known, for the reason `why`."""
    expected: tuple[str, ...] = ()
    """The spec's word `expected`; empty if the results are not known."""
    files: tuple[tuple[str, str], ...] = ()
    """(name of a file beside the module, such as `s01.in0.bin`; name of the captured value in it, `in0`)."""
    why: str | None = None
    """The reason why inputs or expected results are missing; None if both are there."""


def extractor_argv(python: str, bindings: str, source: str, facts: str) -> tuple[str, ...]:
    """Return a command line of `_extractor.py`; `source` and `facts` are files in the working directory."""
    return (python, "-I", "-S", str(_SCRIPT), f"--bindings={bindings}", f"--input={source}", f"--facts={facts}")


def stem(number: int, program: Program) -> str:
    """Return the stem of a site's files: `s01`, or `s001` in a program of 100 sites or more."""
    return f"s{number:0{max(2, len(str(len(program.sites))))}d}"


def chosen(program: Program, extracted: Extracted, sites: Sequence[int]) -> dict[int, list[Site]]:
    """Return the sites that launch each module: module's number → sites, in program order.

    Only the sites whose numbers are in `sites` are returned. A site without a module is left out: the compiler added
    its dispatch after the other dispatches were formed."""
    found: dict[int, list[Site]] = {}
    for site in program.sites:
        if site.number in sites and site.dispatch in extracted.dispatches:
            found.setdefault(extracted.dispatches[site.dispatch], []).append(site)
    return found


def captured_first(sites: Sequence[Site], captured: Container[int]) -> list[Site]:
    """Sort the sites of one module: those whose numbers are in `captured` come first."""
    return sorted(sites, key=lambda site: site.number not in captured)


def without_module(program: Program, extracted: Extracted, sites: Sequence[int]) -> list[int]:
    """Return the numbers, among `sites`, of the sites that have no extracted module."""
    return [s.number for s in program.sites if s.number in sites and s.dispatch not in extracted.dispatches]


def sweep(
    program: Program, extracted: Extracted, number: int, sites: Sequence[Site], captured: Mapping[str, Value] | str
) -> Sweep:
    """Return the sweep of an extracted module, named after the first of `sites`.

    Args:
        program: the program of the sites.
        extracted: the modules of the program.
        number: the number of the module.
        sites: the sites that launch the module (see `captured_first`).
        captured: name (`in0`, `out0`) → captured value of the first site; or the reason why nothing was captured.
    """
    site, module, name = sites[0], extracted.modules[number], stem(sites[0].number, program)
    same = tuple(sorted(each.number for each in sites[1:]))
    if why := _unusable(module):
        return Sweep(site, same, number, name, None, why=why)
    if isinstance(captured, str):
        inputs = tuple(map(random_input, module.arguments))
        known = None if None in inputs else tuple(filter(None, inputs))
        hint = "" if known else ", and its sizes are known at run time only: give inputs"
        return Sweep(site, same, number, name, known, why=f"{captured}{hint}")
    files: dict[str, str] = {}
    words = []
    for argument in module.arguments:
        word = _given(argument, captured, name, files)
        if word is None:
            return Sweep(site, same, number, name, None, why=f"{argument.value} was not captured: give inputs")
        words.append(word)
    results = [f"out{i}" for i in range(len(module.results))]
    if lost := [result for result in results if result not in captured]:
        why = f"{', '.join(lost)} was not captured"
    elif (vague := [result for result in results if captured[result].undefined]) and not any(
        value.undefined for name, value in captured.items() if name.startswith("in")
    ):
        why = f"{', '.join(vague)} has elements that the program never wrote, which differ from call to call"
    else:
        expected = tuple(_file(name, result, captured[result].type, files) for result in results)
        return Sweep(site, same, number, name, tuple(words), expected, tuple(files.items()))
    return Sweep(site, same, number, name, tuple(words), (), tuple(files.items()), why)


def _unusable(module: Extract) -> str | None:
    """Return why no spec can describe a module's arguments and results; None if one can."""
    types = [*(argument.type for argument in module.arguments), *module.results]
    reasons = (why for text, why in _UNUSABLE.items() if any(text in type_ for type_ in types))
    return next(reasons, None)


def random_input(argument: Argument) -> str | None:
    """Return the entry of `inputs` for random numbers of an argument's type, such as `4x8xf32`.

    The result is None for a scalar, or if a size is dynamic."""
    type_ = spelling(argument.type)
    if "?" in type_ or not argument.type.startswith("tensor<"):
        return None
    # Integers may be indices, which must be within the bounds of another operand.
    return f"{type_}=0..1" if _element(type_) in _INDICES else type_


def _element(type_: str) -> str:
    return type_.removeprefix("tensor<").removesuffix(">").rpartition("x")[2]


def _given(argument: Argument, captured: Mapping[str, Value], name: str, files: dict[str, str]) -> str | None:
    value = captured.get(argument.value)
    if value is None:
        return None
    if argument.dim is not None:
        return value.type.split("x")[argument.dim]
    if value.content is None:
        return _file(name, argument.value, value.type, files)
    return _number(argument.type, value.content)


def _file(name: str, value: str, type_: str, files: dict[str, str]) -> str:
    file = f"{name}.{value}.bin"
    files[file] = value
    return f"{type_}=@{file}"


def _number(type_: str, content: bytes) -> str | None:
    """Return a scalar as text; None for a type that IREE's tools do not take as a scalar."""
    if type_ not in _SCALARS:
        return None
    form = _SCALARS[type_]
    (number,) = struct.unpack(form, content[: struct.calcsize(form)])
    return repr(int(number) if isinstance(number, bool) else number)
