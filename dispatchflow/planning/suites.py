"""Make `Module` objects from the folders of a test suite.

Each folder has an MLIR file and a flag file. The flag file is a list of command-line flags. It names the inputs of one
call of the MLIR module, and the expected results."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from dispatchflow.cases.module import File, Input, Module, Parameters
from dispatchflow.errors import SpecError, suggestion
from dispatchflow.iree import flag_file, parameters
from dispatchflow.iree.targets import Target
from dispatchflow.planning import module_words
from dispatchflow.planning.location import Location
from dispatchflow.planning.module_files import NoFunction
from dispatchflow.planning.module_words import Given
from dispatchflow.planning.patterns import is_pattern
from dispatchflow.planning.reading import Read

MODEL = "model.mlir"
FLAGS = "run_module_io_flags.txt"
_MODELS = (".mlir", ".mlirbc")
_FLAGS = "flags.txt"
_BY_FLAGS = ("file", "inputs", "expected", "parameters", "name")
"""Keys that a sweep with `suite` must not have, because each folder of the suite gives their values.

The folder's flag file gives `inputs`, `expected` and `parameters`. The folder's MLIR file and path give `file` and
`name`."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lacking:
    """A folder of a test suite from which no case can be made.

    A possible `reason` is a missing MLIR file."""

    name: str
    reason: str


class _NotUnderstood(Exception):
    """The flag file in a folder of a test suite is wrong. Only the cases of this folder fail."""


def modules(
    words: Any, against: Target | None, place: Location, read: Read
) -> tuple[tuple[Module, ...], tuple[Lacking, ...]]:
    """Return the modules in the folders of a test suite, and the folders from which no case can be made.

    If a folder's flag file is wrong, the attribute `problem` of its modules has the reason, and their cases fail.

    Raises:
        SpecError: no folder matches; no module has a wanted function; `rtol` or `reference` is wrong; or the sweep
            has a key, such as `inputs`, that is not allowed together with `suite`.
    """
    for word in _BY_FLAGS:
        if getattr(words, word) is not None:
            facts = {"spec": place.at(word), "suite": ", ".join(module_words.listed(words.suite))}
            hint = "A suite's folders have a name, a module and a flag file of their own: leave it out."
            raise SpecError(f"both 'suite' and '{word}' are given", facts, hint)
    module_words.check_rtol(words.rtol, place)
    if words.reference is not None and against is None:
        facts = {"spec": place.at("reference"), "found": words.reference}
        raise SpecError(f"{words.reference} runs ONNX models only", facts, "Name a target: vmvx, llvm-cpu, …")
    found, lacking, others = list[Module](), list[Lacking](), list[str]()
    for folder, name in _named([_matching(p, place, read) for p in module_words.listed(words.suite)]).items():
        try:
            model, flags = _test_in(folder, read)
        except OSError as error:
            lacking.append(Lacking(f"module_{name}", f"the folder cannot be read: {error.strerror}"))
            continue
        if model is None or flags is None:
            missing = f"no module ({MODEL})" if model is None else f"no flag file ({FLAGS})"
            lacking.append(Lacking(f"module_{name}", missing))
            continue
        try:
            found += _of_folder(folder, name, (model, flags), words, against, place, read)
        except SpecError as error:
            others += error.public if isinstance(error, NoFunction) else []
            lacking.append(Lacking(f"module_{name}", _short(error)))
    wanted, entries = module_words.listed(words.function), [program.entry for program in found]
    if wanted and (entries or others) and not {*wanted} & {*entries}:
        facts = {"spec": place.at("function"), "suite": ", ".join(module_words.listed(words.suite))}
        raise NoFunction(wanted[0], list(dict.fromkeys(entries + others)), facts)
    return tuple(found), tuple(lacking)


def _of_folder(
    folder: str, name: str, files: tuple[str, str], words: Any, against: Target | None, place: Location, read: Read
) -> list[Module]:
    model, flags = (posixpath.join(folder, file) for file in files)
    _, content = module_words.file(flags, "suite", place, read)
    given, function, problem = Given(), words.function, None
    try:
        given, named = _given(content.decode(errors="replace"), folder, place, read)
        function = named or function
    except _NotUnderstood as error:
        problem = f"{files[1]}:{error}"
    if given.expected or problem:
        against = None
    return module_words.of_file(model, name, function, given, against, words.rtol, None, place, read, problem)


def _given(text: str, folder: str, place: Location, read: Read) -> tuple[Given, str | None]:
    """Parse a flag file. Return its inputs, expected results and weights, and the function that it names.

    The function is None if the file does not name one. Paths in the file are relative to `folder`."""
    inputs, expected, weights = list[Input](), list[File | str](), list[Parameters]()
    function = None
    for flag in flag_file.parse(text):
        value = flag_file.in_folder(flag.value, folder)
        match flag.name:
            case flag_file.INPUT:
                inputs += _read(flag, module_words.inputs, flag_file.tensor(value), place, read)
            case flag_file.EXPECTED:
                value = flag_file.tensor(value)
                if "=" in value and "=@" not in value:
                    hint = f"Write the numbers into a file: --{flag_file.EXPECTED}=4xf32=@output_0.bin."
                    raise _NotUnderstood(
                        f"{flag.line}: expected numbers are not read from a flag: {flag.value}. {hint}"
                    )
                expected += _read(flag, module_words.expected, value, place, read)
            case flag_file.PARAMETERS:
                scope, name = parameters.split(flag.value)
                path = posixpath.join(folder, name)
                written = f"{scope}={path}" if scope else path
                weights.append(_read(flag, module_words.weights, written, place, read))
            case flag_file.FUNCTION:
                function = flag.value
            case _:
                known = ", ".join(f"--{name}" for name in flag_file.TAKEN)
                near = suggestion(flag.name, flag_file.TAKEN)
                said = f"--{flag.name} is not understood" if flag.name else f"'{flag.value}' is no flag"
                raise _NotUnderstood(f"{flag.line}: {said}. {near or f'Known are {known}.'}")
    return Given(tuple(inputs), tuple(expected), tuple(weights)), function


def _read(
    flag: flag_file.Flag, parse: Callable[[str, Location, Read], T], value: str, place: Location, read: Read
) -> T:
    try:
        return parse(value, place, read)
    except SpecError as error:
        raise _NotUnderstood(f"{flag.line}: --{flag.name}={flag.value}: {_short(error)}") from error


def _short(error: SpecError) -> str:
    """Return an error message in one line, without the place of the error in a spec or command line."""
    facts = [f"{value}" for fact, value in error.facts.items() if fact in ("file", "found") and str(value)]
    return ": ".join([error.problem, *facts])


def _matching(pattern: str, place: Location, read: Read) -> list[str]:
    """Return the folders of a test suite that a pattern matches.

    A path without `*`, `?` or `[` names either the folder of one test, or a folder whose subfolders are returned.
    A folder in the result may have no MLIR file or no flag file."""
    root = "/" if pattern.startswith("/") else ""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]  # `..` stays: it may follow a link
    pattern = root + "/".join(parts) or "."
    if not is_pattern(pattern):
        try:
            if any(_test_in(pattern, read)):
                return [pattern]
        except (OSError, ValueError) as error:
            facts = {"spec": place.at("suite"), "folder": pattern, "found": getattr(error, "strerror", None) or error}
            raise SpecError("a suite cannot be read", facts, place.paths("suite")) from error
        parts.append("*")
    found = sorted(_walk(root, parts, read))
    if "**" in parts or not is_pattern(parts[-1]):  # some found folders may not exist, or may have no test
        found = [folder for folder in found if _is_test(folder, read)]
    if found:
        return found
    facts = {"spec": place.at("suite"), "given": pattern}
    raise SpecError(
        "no folder of a suite matches", facts, f"{place.paths('suite')} onnx/node/* is each folder in onnx/node."
    )


def _walk(folder: str, parts: Sequence[str], read: Read) -> Iterator[str]:
    if not parts:
        yield folder
        return
    part, *rest = parts
    if part == "**":
        yield from _walk(folder, rest, read)
    elif not is_pattern(part):
        yield from _walk(posixpath.join(folder, part), rest, read)
        return
    try:
        entries = read.entries(folder or ".")
    except (OSError, ValueError):
        return  # a folder that is not there, or not readable, has no folders
    for name, is_folder in entries:
        if is_folder and (part.startswith(".") or not name.startswith(".")):
            if part == "**":
                yield from _walk(posixpath.join(folder, name), parts, read)
            elif fnmatchcase(name, part):
                yield from _walk(posixpath.join(folder, name), rest, read)


def _named(matched: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return a dict from each folder to its name, which is the last part of the folder's path.

    If several folders have the same last part, their names are relative paths instead. These paths start at the deepest
    directory that contains every folder whose last part is not unique."""
    folders = list(dict.fromkeys(folder for each in matched for folder in each))
    count = Counter(posixpath.basename(folder) for folder in folders)
    alike = [folder for folder in folders if count[posixpath.basename(folder)] > 1]
    shared = posixpath.commonpath(alike) if alike else ""
    return {
        folder: posixpath.relpath(folder, shared or ".") if folder in alike else posixpath.basename(folder)
        for folder in folders
    }


def _is_test(folder: str, read: Read) -> bool:
    try:
        return any(_test_in(folder, read))
    except OSError:
        return False


def _test_in(folder: str, read: Read) -> tuple[str | None, str | None]:
    """Return the names of the MLIR file and of the flag file in a folder.

    None takes the place of a name if there is no such file, or if it is not clear which of several files is meant."""
    files = [name for name, is_folder in read.entries(folder) if not is_folder]
    return _one(files, MODEL, _MODELS), _one(files, FLAGS, (_FLAGS,))


def _one(files: Sequence[str], usual: str, endings: tuple[str, ...]) -> str | None:
    found = [file for file in files if file.endswith(endings) and not file.startswith(".")]
    return usual if usual in files else found[0] if len(found) == 1 else None
