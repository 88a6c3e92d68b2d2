"""Parse the flag files of IREE's runtime tools, which have one `--name=value` per line.

IREE's test suites keep a flag file beside each module, with the inputs and the expected results of a call."""

from __future__ import annotations

from dataclasses import dataclass

from dispatchflow.units import is_number

INPUT = "input"
EXPECTED = "expected_output"
FUNCTION = "function"
PARAMETERS = "parameters"
IGNORED = ("module", "device", "expected_f16_threshold", "expected_f32_threshold", "expected_f64_threshold")
"""Ignored flags: a case itself decides which module runs, on which device, and how results compare."""
TAKEN = (INPUT, EXPECTED, FUNCTION, PARAMETERS)

_COMMENTS = ("#", "//")


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag, or a line that is no flag. `line` is the line's number in the file, from 1."""

    line: int
    name: str
    """The name without dashes; empty if the line is no flag."""
    value: str
    """The text after `=`; if the line is no flag, the line."""


def parse(text: str) -> list[Flag]:
    """Return a file's flags in their order, without empty lines, comments and the flags in `IGNORED`."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        written = line.strip()
        if not written or written.startswith(_COMMENTS):
            continue
        name, equals, value = written.partition("=")
        if not equals or not name.startswith("-"):
            found.append(Flag(number, "", written))
        elif name.lstrip("-") not in IGNORED:
            found.append(Flag(number, name.lstrip("-"), value.strip()))
    return found


def tensor(value: str) -> str:
    """Convert the value of an `--input` flag to the spelling that specs use.

    A type without a value means zeros: `4xf32` becomes `4xf32=0`. A tensor of rank 0, `f32=@x.bin`, becomes
    `tensor<f32>=@x.bin`."""
    kind, equals, rest = value.partition("=")
    if equals:
        return f"{_ranked(kind.strip())}={_plain(rest)}"
    return f"{_ranked(kind)}=0" if kind[-1:].isdigit() and not is_number(kind) else value


def in_folder(value: str, folder: str) -> str:
    """Put `folder` before the relative path after the `@` in `value`. Return any other value unchanged."""
    before, at, path = value.partition("@")
    return f"{before}@{folder}/{path}" if at and not path.startswith("/") else value


def _ranked(kind: str) -> str:
    return f"tensor<{kind}>" if kind and kind[0] in "fib" and "x" not in kind else kind


def _plain(numbers: str) -> str:
    """Return numbers without brackets: `[1 2][3 4]` becomes `1 2 3 4`; a file, `@x.bin`, stays."""
    return numbers if numbers.startswith("@") else " ".join(numbers.replace("[", " ").replace("]", " ").split())
