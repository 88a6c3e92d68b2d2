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
"""Flags that are ignored. The case determines the module, the device and the error bounds."""
TAKEN = (INPUT, EXPECTED, FUNCTION, PARAMETERS)

_COMMENTS = ("#", "//")


@dataclass(frozen=True, slots=True)
class Flag:
    """One line of a flag file: a flag, or a text that is not a flag. `line` is the line's number, from 1."""

    line: int
    name: str
    """The flag's name without dashes; empty if the line is not a flag."""
    value: str
    """The text after `=`; the whole line if the line is not a flag."""


def parse(text: str) -> list[Flag]:
    """Return the flags of a flag file in their order.

    Empty lines, comments, and the flags in `IGNORED` are left out. A line that is neither a comment nor a flag becomes
    a `Flag` without a name."""
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

    A type without a value means zeros: `4xf32` becomes `4xf32=0`. The type of a tensor of rank 0 gets its full name:
    `f32=@x.bin` becomes `tensor<f32>=@x.bin`."""
    kind, equals, rest = value.partition("=")
    if equals:
        return f"{_ranked(kind.strip())}={_plain(rest)}"
    return f"{_ranked(kind)}=0" if kind[-1:].isdigit() and not is_number(kind) else value


def in_folder(value: str, folder: str) -> str:
    """Put `folder` before the path that follows the `@` in `value`, if that path is relative."""
    before, at, path = value.partition("@")
    return f"{before}@{folder}/{path}" if at and not path.startswith("/") else value


def _ranked(kind: str) -> str:
    return f"tensor<{kind}>" if kind and kind[0] in "fib" and "x" not in kind else kind


def _plain(numbers: str) -> str:
    """Return numbers without brackets: `[1 2][3 4]` becomes `1 2 3 4`.

    A file such as `@x.bin` is returned unchanged."""
    return numbers if numbers.startswith("@") else " ".join(numbers.replace("[", " ").replace("]", " ").split())
