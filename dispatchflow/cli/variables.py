"""The variables that a command line may set with `name=value`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from dispatchflow.cases import known_failures
from dispatchflow.cases.module import Module
from dispatchflow.engine.settings import VERIFY_MODES
from dispatchflow.errors import SpecError, suggestion
from dispatchflow.iree import phases
from dispatchflow.libraries.providers import PROVIDERS
from dispatchflow.models.rollup import By
from dispatchflow.operations import DIMS, OPERATIONS, OPTIONS, refuse_taken
from dispatchflow.planning import inference, sweep_words
from dispatchflow.planning.location import COMMAND_LINE, LINE_FOLDER, Location
from dispatchflow.reports import best
from dispatchflow.reports.table import FORMATS
from dispatchflow.timing.protocols import PROTOCOLS
from dispatchflow.tools import limits
from dispatchflow.units import whole


@dataclass(frozen=True, slots=True)
class Variable:
    group: str
    """The variable's group: `cases` (says which cases exist), `run` (says how they run), `report`, …"""
    meaning: str
    parse: Callable[[str], Any] = str
    """A function from the text to the value. It raises a ValueError that says which values are allowed."""
    elsewhere: str = ""
    """The help text in commands that take this variable without its group; if empty, `meaning` is used."""


class _NoneOf(ValueError):
    def __init__(self, known: Sequence[str], hint: str, beside: str = "") -> None:
        super().__init__(f"one of {', '.join(known)}{beside}")
        self.hint = hint


def _one_of(words: Iterable[str], beside: str = "") -> Callable[[str], str]:
    known = tuple(words)

    def parse(value: str) -> str:
        if value not in known:
            raise _NoneOf(known, suggestion(value, known), beside)
        return value

    return parse


def _words(value: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(sweep_words.listed(value)))
    if not words or sweep_words.has_gap(value):
        raise ValueError("one or more words, separated by commas")
    return words


def _operations(value: str) -> tuple[str, ...]:
    words, known = _words(value), (*OPERATIONS, Module.name)
    for word in words:
        if word not in known:
            which = f"'{word}' is unknown. " if len(words) > 1 else ""
            hint = inference.by_field(word, Location(COMMAND_LINE)) or suggestion(word, known)
            raise _NoneOf(known, which + hint)
    return words


def _values(value: str) -> list[str]:
    return [word.strip() for word in value.split(";")]


def _semicolons(value: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in value.split(";"))
    if not all(words):
        raise ValueError("one or more, separated by semicolons")
    return words


def _title(value: str) -> str:
    if not value.strip():
        raise ValueError("a name that is not empty")
    return value


def _single(value: str) -> str:
    if len(sweep_words.listed(value)) != 1:
        raise ValueError("one target")
    return value


def _paths(value: str) -> tuple[str, ...]:
    paths = tuple(word.strip(" ") for word in value.split(","))
    if not all(paths):
        raise ValueError("one or more paths, separated by commas")
    return paths


def _file(value: str) -> str:
    if not value:
        raise ValueError("a file's path")
    return value


def _yes(value: str) -> bool:
    return _one_of(("yes", "no"))(value) == "yes"


def _remeasure(value: str) -> str | int | None:
    if (days := whole(value)) is not None:
        return days
    known = _one_of(("yes", "no", "noisy"), beside=", or a whole number of days")
    return None if known(value) == "no" else value


def _count(value: str) -> int:
    if not (count := whole(value)):
        raise ValueError("a whole number, 1 or more")
    return count


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError("a number, 1e-3") from None


def _sample(value: str) -> int | None:
    return None if value == "all" else _count(value)


def _sites(value: str) -> tuple[int, ...] | None:
    if value == "all":
        return None
    numbers = [whole(word) for word in _words(value)]
    if not all(numbers):
        raise ValueError("numbers of sites, 1,10, or all")
    return tuple(number for number in numbers if number)


def _keep(value: str) -> tuple[str | int, ...]:
    words = _words(value)
    if any(word != "referenced" and whole(word) is None for word in words):
        raise ValueError("a whole number of days, referenced, or both")
    return tuple(word if word == "referenced" else int(word) for word in words)


_FROM = f"relative to {LINE_FOLDER}"
_OWN: dict[str, Variable] = {
    "shape": Variable("cases", "complete shapes, 64x80x96, or classes: aligned, unaligned, narrow, tiny, resnet50, …"),
    "file": Variable(
        "cases", f"a module's MLIR or ONNX file instead of specs; several, separated by commas; {_FROM}", _paths
    ),
    "suite": Variable(
        "cases",
        f"folders of a test suite instead of file=: onnx/node/*, each with a module and a flag file; {_FROM}",
        _paths,
    ),
    "function": Variable("cases", "the module's functions; all if left out", _words),
    "inputs": Variable(
        "cases", f"the module's inputs, semicolons between: 4x8xf32;4x8xf32=0.5;@a.npy;5; files {_FROM}", _semicolons
    ),
    "parameters": Variable(
        "cases",
        f"the module's weights, scope=file with semicolons between: model=w.irpa;more=m.gguf; files {_FROM}",
        _semicolons,
    ),
    "expected": Variable(
        "cases", f"the module's expected results, separated by semicolons: y.npy;z.bin;5; files {_FROM}", _semicolons
    ),
    "reference": Variable(
        "cases", "the target that a module, or each site (locate), is compared with; or onnxruntime", _single
    ),
    "rtol": Variable("cases", "relative tolerance of a module's floating-point results", _number),
    "name": Variable("cases", "replaces the file's name in the names of a module's cases", _title),
    "operation": Variable(
        "cases", "the operations to sweep; if specs are read, selects their sweeps of these operations", _operations
    ),
    "dtype": Variable("cases", "element types: f32, or f16,f16->f32; several with ;"),
    "layout": Variable(
        "cases",
        "one letter per leading operand: t row-major (also when omitted), n column-major; or a name such as nhwc_hwcf",
    ),
    "tuning": Variable("cases", f"families or names: default,data_tiling; or tuning_spec:my.mlir, a file {_FROM}"),
    "target": Variable("cases", "targets to compile for"),
    "threads": Variable("cases", "number of threads, or all"),
    "flags": Variable("cases", "extra flags of the compiler; several values with ;, an empty one for none", _values),
    "provider": Variable("cases", f"what computes a case: {', '.join(PROVIDERS)}"),
    "cache": Variable("cases", "hot: the same inputs each call; cold: inputs that no cache holds; hot,cold for both"),
    "tags": Variable("cases", "select sweeps that have one of these tags; patterns such as net:* are allowed", _words),
    "specs": Variable("cases", "spec files or directories, relative to that of dodo.py, separated by commas", _paths),
    "iree": Variable(
        "run", f"the toolchain: current, a release such as 3.12.0, or the path of a build or environment, {_FROM}"
    ),
    "protocol": Variable("run", f"how long to measure: {', '.join(PROTOCOLS)}", _one_of(PROTOCOLS)),
    "verify": Variable("run", "on; off; warn: measure wrong results too", _one_of(VERIFY_MODES)),
    "remeasure": Variable(
        "run", "yes: measure all again; noisy: only NOISY rows; N: only measurements older than N days", _remeasure
    ),
    "noisy": Variable("run", "rows whose median is less certain than this are NOISY; default 5%", limits.percent),
    "retry": Variable("run", "yes: try recorded failures again", _yes),
    "known_failures": Variable(
        "run",
        "on: do not count them as failures; strict: also exit 1 if a known failure now passes; off: count them",
        _one_of(known_failures.MODES),
    ),
    "compile_limit": Variable("run", "seconds that one compile may take", limits.seconds),
    "run_limit": Variable("run", "seconds that one call of a module may take in verification", limits.seconds),
    "block_limit": Variable("run", "seconds that one block of a measurement may take", limits.seconds),
    "memory_limit": Variable(
        "run", "memory of one tool: 512MiB, 8GiB, none; default: the memory of this machine", limits.memory
    ),
    "remove": Variable("toolchains", "a fetched release to remove"),
    "sample": Variable("check", "number of compiles to repeat, or all; ten times as many objects are read", _sample),
    "keep": Variable(
        "clean",
        "30 keeps records of the last 30 days; referenced keeps what cases need; 30,referenced combines both",
        _keep,
    ),
    "limit": Variable(
        "clean",
        "remove the oldest objects until the rest fits; never what keep= names",
        limits.size,
        "the largest capture of a program's sites, such as limit=2GiB; default 1GiB",
    ),
    "dry": Variable("clean", "yes: show what would be removed, remove nothing", _yes),
    "by": Variable(
        "stage sites",
        f"add up the times of sites: {', '.join(get_args(By))}; scope is a prefix of the operations' names",
        _one_of(get_args(By)),
    ),
    "depth": Variable("stage sites", "how many components of a name by=scope takes; default 1", _count),
    "sites": Variable("extract", "numbers of sites, as doit sites:CASE shows them: 1,10, or all", _sites),
    "execution": Variable("extract", "the execution of a site in a loop to capture, from 1; default the last", _count),
    "kernel": Variable("stage sites", "only sites that launch the kernel of this name, for example from a profiler"),
    "from": Variable("phases", "the compiler's phase to begin with: flow; doit phases CASE lists them"),
    "to": Variable("phases", "the phase to end with; with from= alone, the next one"),
    "with": Variable("phases", "another case, or iree=3.12.0 for the same case: at which phase they differ, and how"),
    "timing": Variable("phases", "yes: the ten slowest passes of the compiler", _yes),
    "pass": Variable("phases", "all: keep the module after each pass, in phases/passes.txt", _one_of(("all",))),
    "replay": Variable("extract", "yes: repro.sh run records its calls for iree-run-replay", _yes),
    "output": Variable(
        "phases", f"keep the host program as text: {', '.join(phases.OUTPUTS)}", _one_of(phases.OUTPUTS)
    ),
    "site": Variable("annotate", "a site's number, or its kernel; doit sites:CASE lists them"),
    "sort": Variable("report", "a column; -column for descending"),
    "top": Variable("report", "show only the first N rows of each operation", _count),
    "columns": Variable("report", "columns to show", _words),
    "format": Variable("report", f"one of {', '.join(FORMATS)}", _one_of(FORMATS)),
    "out": Variable("report", f"the file to write, {_FROM}", _file, f"the file or folder to write, {_FROM}"),
    "stage": Variable("history", "verify: the verdicts of cases, measured or not", _one_of(("verify",))),
    "write": Variable("known", f"write entries for the present failures to this file, {_FROM}", _file),
    "history": Variable("history", "yes: all rows of a case, not only the newest", _yes),
}
_TRACES = {"tracy": "tracy", "perfetto": "json"}
_SEE = {"kind": "; see docs/operations.md"}
refuse_taken(OPERATIONS.values(), {*_OWN, "include", "exclude"}, "a word of every spec, or a variable")
refuse_taken(OPERATIONS.values(), best.COLUMNS, "a column of reports")
VARIABLES: dict[str, Variable] = {
    **{dim: Variable("cases", "size, list 64,128, range 64:1024:128 or 2^4..2^10") for dim in DIMS},
    **{word: Variable("cases", option.meaning + _SEE.get(word, "")) for word, option in OPTIONS.items()},
    **_OWN,
}


def named(groups: Collection[str]) -> dict[str, Variable]:
    """Return the variables for `groups`, by name; `groups` may name single variables too."""
    own = {name: variable for name, variable in VARIABLES.items() if variable.group in groups}
    others = {name: VARIABLES[name] for name in groups if name in VARIABLES and name not in own}
    return own | {name: replace(each, meaning=each.elsewhere or each.meaning) for name, each in others.items()}


def parse(raw: Mapping[str, str], groups: Iterable[str]) -> dict[str, Any]:
    """Parse the values of a command's variables; for example, `{"top": "5"}` becomes `{"top": 5}`.

    Args:
        groups: the variables that the command takes. Each word names a group, such as `report`, or one variable.

    Raises:
        SpecError: a variable is unknown or not taken by this command, or a value is not allowed."""
    allowed = named(tuple(groups))
    values = {}
    for name, text in raw.items():
        if name not in allowed:
            problem = f"'{name}=' means nothing to this command" if name in VARIABLES else f"unknown variable '{name}'"
            facts = {"given": f"{name}={text}", "known": ", ".join(allowed) or "none"}
            format_ = _TRACES.get(text.rpartition(".")[2]) if name in ("trace", "keep") else None
            hint = f"The command is doit trace CASE out=net.{format_}." if format_ else suggestion(name, allowed)
            raise SpecError(problem, facts, hint)
        try:
            values[name] = allowed[name].parse(text)
        except ValueError as error:
            meaning = allowed[name].meaning  # not capitalize(), which turns MiB into mib
            hint = (isinstance(error, _NoneOf) and error.hint) or f"{meaning[0].upper()}{meaning[1:]}."
            raise SpecError(f"{name} cannot be '{text}'", {"allowed": error}, hint) from error
    return values
