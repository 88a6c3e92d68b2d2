"""Sites as cases: the facts that `_extractor.py` writes, and a sweep for each module that it wrote."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from dispatchflow.mlir.functions import spelling
from dispatchflow.models.site import Program, Site

FUNCTION = "main"
"""The function of an extracted module."""
NO_BINDINGS = 3
"""The script's exit code if iree.compiler cannot be imported."""
_SCRIPT = Path(__file__).with_name("_extractor.py")
_SCALARS = {"index": "<q", "i64": "<q", "i32": "<i", "i16": "<h", "i8": "<b", "i1": "<?", "f64": "<d", "f32": "<f"}
_INDICES = ("i32", "i64")
_ENCODED = "its operands have an encoding, a layout that the compiler chooses later, so no function can take them"


class Argument(msgspec.Struct, frozen=True):
    """An argument of an extracted function."""

    type: str
    """Its type in MLIR: `tensor<4x?xf32>`, `index`."""
    value: str
    """The operand that is passed, or whose size is: `in0`; `workload0` for a number of the workload only."""
    dim: int | None = None
    """If a size is passed, the dimension of `value`, which may also be a result, `out0`."""


class Extract(msgspec.Struct, frozen=True):
    """A module with one executable, and a function that launches it."""

    executable: str
    export: str
    arguments: tuple[Argument, ...]
    results: tuple[str, ...]
    """The types of the results in MLIR."""


class Extracted(msgspec.Struct, frozen=True):
    """The modules of a program's dispatches. Module N is the output `N.mlir` of the extraction."""

    modules: tuple[Extract, ...]
    dispatches: dict[int, int]
    """The number of a dispatch, `models.site.Site.dispatch`, → the number of its module."""


class Value(msgspec.Struct, frozen=True):
    """A captured operand or result."""

    type: str
    """`4x8xf32` with its sizes at run time; `index` or `i32` for a bare number."""
    content: bytes | None = None
    """The bytes of a bare number, as the file of a tensor has them; None for a tensor."""
    undefined: bool = False
    """Whether the program never wrote some of its elements, so that they may be anything."""


class Sweep(msgspec.Struct, frozen=True):
    """An extracted site as a sweep of a spec, with the files beside its module."""

    site: Site
    same: tuple[int, ...]
    """The other sites that launch the same module."""
    module: int
    name: str
    """The stem of its files: `s01`."""
    inputs: tuple[str, ...] | None
    """The words of `inputs`; None if a size is known at run time only and there is no capture."""
    expected: tuple[str, ...] = ()
    """The words of `expected`; empty if its results are not known."""
    files: tuple[tuple[str, str], ...] = ()
    """File beside the module, `s01.in0.bin`, → the captured value in it, `in0`."""
    why: str | None = None
    """The reason why it has no inputs, or no expected results."""


def extractor_argv(python: str, bindings: str, source: str, facts: str) -> tuple[str, ...]:
    """Return a command line of the script, with the names of files in the working directory."""
    return (python, "-I", "-S", str(_SCRIPT), f"--bindings={bindings}", f"--input={source}", f"--facts={facts}")


def stem(number: int, program: Program) -> str:
    """Return the stem of a site's files: `s01`, in a program of 100 sites and more `s001`."""
    return f"s{number:0{max(2, len(str(len(program.sites))))}d}"


def chosen(program: Program, extracted: Extracted, sites: Sequence[int]) -> dict[int, list[Site]]:
    """Return the number of each module that these sites launch → its sites, in the order of the program.

    A site whose dispatch the compiler added after the dispatches were formed has no module."""
    found: dict[int, list[Site]] = {}
    for site in program.sites:
        if site.number in sites and site.dispatch in extracted.dispatches:
            found.setdefault(extracted.dispatches[site.dispatch], []).append(site)
    return found


def without_module(program: Program, extracted: Extracted, sites: Sequence[int]) -> list[int]:
    """Return the sites, among these, that have no module."""
    return [s.number for s in program.sites if s.number in sites and s.dispatch not in extracted.dispatches]


def sweep(
    program: Program, extracted: Extracted, number: int, sites: Sequence[Site], captured: Mapping[str, Value] | str
) -> Sweep:
    """Return the sweep of an extracted module. It is named after the first site that launches the module.

    Args:
        program: the program of the sites.
        extracted: its modules.
        number: the number of the module.
        sites: the sites that launch it.
        captured: the captured values of the first site by name, `in0`, `out0`, …; or the reason why there are none.
    """
    site, module, name = sites[0], extracted.modules[number], stem(sites[0].number, program)
    same = tuple(each.number for each in sites[1:])
    if _is_encoded(module):
        return Sweep(site, same, number, name, None, why=_ENCODED)
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


def _is_encoded(module: Extract) -> bool:
    types = (*(argument.type for argument in module.arguments), *module.results)
    return any("encoding" in type_ for type_ in types)


def random_input(argument: Argument) -> str | None:
    """Return an input of random numbers; None if a size or a number is known at run time only."""
    type_ = spelling(argument.type)
    if "?" in type_ or not argument.type.startswith("tensor<"):
        return None
    # Whole numbers may be indices, and must then be inside of another operand.
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
    """Return the words of a bare number; None for a type that the tools do not take as a bare number."""
    if type_ not in _SCALARS:
        return None
    form = _SCALARS[type_]
    (number,) = struct.unpack(form, content[: struct.calcsize(form)])
    return repr(int(number) if isinstance(number, bool) else number)
