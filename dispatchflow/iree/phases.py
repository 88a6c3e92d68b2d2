"""Define the compiler flags for dumps, and find the dump of each phase."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dispatchflow.errors import SpecError, suggestion

FOLDER = "phases"
"""The directory into which the compiler dumps the module after each phase."""

SOURCES = "sources"
"""The directory into which the compiler dumps each dispatch's module, before it generates code."""

PASSES = ("--mlir-print-ir-after-all",)
"""Flags that print the module after each pass.

The modules are always printed in the same order, because the flags of all targets include `--mlir-disable-threading`.
"""

SHORT = ("--mlir-elide-elementsattrs-if-larger=64", "--mlir-elide-resource-strings-if-larger=64")
"""Flags that leave out long constants, which `PASSES` would print hundreds of times."""

TIMING = ("--mlir-timing", "--mlir-timing-display=tree", "--mlir-output-format=json")
"""Flags that print the time of each pass.

If the compiler has only one thread, the times add up to the time of the compile."""
OUTPUTS = ("vm-asm", "vm-c")
"""Values of `--output-format=` with which the compiler prints the host program as text."""

_FUNCTION = re.compile(r"\s*func\.func (?:\w+ )?@([^\s(]+)\(")
_FILE = re.compile(r"(?:.*\.)?(\d+)\.([\w-]+)\.mlir", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class Phase:
    """A phase of the compiler, after which the module is dumped."""

    number: int
    """The phase's place in the order of the phases, from 1."""
    name: str
    """The compiler's name of the phase, such as `flow`, which is also a value of `--compile-to=`."""

    @property
    def file(self) -> str:
        return f"{self.number}.{self.name}.mlir"


def dump_flags(folder: str = FOLDER) -> tuple[str, ...]:
    return (f"--dump-compilation-phases-to={folder}",)


def sources_flags() -> tuple[str, ...]:
    return (
        f"--iree-hal-dump-executable-sources-to={SOURCES}",
        "--compile-to=executable-sources",
        "--emit-mlir-bytecode",
    )


def output_flags(kind: str) -> tuple[str, ...]:
    return (f"--output-format={kind}",)


def functions(module: str) -> dict[str, int]:
    """Return a mapping from the name of each function in a module's text to the number of its line."""
    lines = enumerate(module.splitlines(), 1)
    return {match[1]: number for number, line in lines if (match := _FUNCTION.match(line))}


def found(files: Iterable[str]) -> dict[Phase, str]:
    """Return a mapping from each phase to the name of the file with its dump, in the order of the phases.

    `files` are file names, such as `6.flow.mlir` or `_stdin_.6.flow.mlir`. The part `_stdin_` is the name of the
    compiler's input. Names of other forms are ignored."""
    matches = {name: match for name in files if (match := _FILE.fullmatch(name))}
    return dict(sorted((Phase(int(match[1]), match[2]), name) for name, match in matches.items()))


def named(word: str, known: Sequence[Phase], variable: str) -> Phase:
    """Return the phase that `word` names: `flow`, `6`, `6.flow` or `6.flow.mlir`.

    `variable` is the command-line variable whose value is `word`. The error message shows the variable and its value.

    Raises:
        SpecError: there is no such phase; the error lists all phases.
    """
    for phase in known:
        if word in (phase.name, str(phase.number), f"{phase.number}.{phase.name}", phase.file):
            return phase
    names = [phase.name for phase in known]
    hint = suggestion(word, names)
    raise SpecError(
        f"the compiler has no phase '{word}'", {"given": f"{variable}={word}", "phases": ", ".join(names)}, hint
    )
