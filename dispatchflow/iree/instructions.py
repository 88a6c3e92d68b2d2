"""Build command lines of `perf`; parse the instructions that `perf annotate` and `objdump` print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SYSTEM_LINKED = ("--iree-llvmcpu-link-embedded=false",)
"""Compiler flags that make executables ordinary shared libraries, whose symbols `perf` finds."""

KEPT = "IREE_PRESERVE_DYLIB_TEMP_FILES"
"""The environment variable that makes the runtime keep the temporary shared libraries that it writes."""

_SAMPLES = re.compile(r"Percent.*\((\d+) samples")
_SAMPLED = re.compile(r"\s*(\d+\.\d+)\s+:\s*(?:\d+\s+)?([0-9a-f]+):\s+(\S.*)")
_SYMBOL = re.compile(r"[0-9a-f]+ <(.+)>:")
_CODE = re.compile(r"\s*([0-9a-f]+):\s+(\S.*)")
_TARGET = re.compile(r"\b(?:0x)?([0-9a-f]+) <[^>]*>$")
_RELATIVE = re.compile(r"-?0x[0-9a-f]+\(%rip\)(?:\s+#.*)?")
_PADDING = ("nop", "int3", "xchg   %ax,%ax", "cs nop", "data16")


@dataclass(frozen=True, slots=True)
class Instruction:
    address: int
    text: str
    """The instruction, as objdump prints it."""
    share: float = 0.0
    """The fraction of the function's samples that were taken at this instruction, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Annotated:
    """A function's instructions, and the number of samples that were taken in the function."""

    samples: int
    instructions: tuple[Instruction, ...]

    def hottest(self, count: int) -> list[Instruction]:
        """Return the `count` instructions with the most samples, in descending order of samples.

        Instructions without samples are left out."""
        found = sorted(self.instructions, key=lambda each: (-each.share, each.address))
        return [each for each in found[:count] if each.share]


def record_argv(perf: str, output: str, frequency: int, command: Sequence[str]) -> tuple[str, ...]:
    """Return a command line that runs `command` and takes `frequency` samples per second of CPU time."""
    # `-N` turns off perf's cache of programs, for which perf makes hard links to the toolchain's files. A link changes
    # the ctime of a file, and a file with a new ctime counts as changed.
    return (perf, "record", "-N", "-e", "cpu-clock", "-F", str(frequency), "-o", output, "--", *command)


def annotate_argv(perf: str, samples: str, symbol: str) -> tuple[str, ...]:
    return (perf, "annotate", "-i", samples, "--stdio", "-s", symbol)


def disassemble_argv(objdump: str, library: str) -> tuple[str, ...]:
    return (objdump, "-d", "--no-show-raw-insn", "-w", library)


def annotated(text: str) -> Annotated | None:
    """Parse the function that `perf annotate --stdio` printed; None if the function has no samples."""
    if (header := _SAMPLES.search(text)) is None:
        return None
    found = [match for line in text.splitlines() if (match := _SAMPLED.fullmatch(line))]
    instructions = [
        Instruction(int(at, 16), " ".join(code.split()), float(share) / 100) for share, at, code in map(_parts, found)
    ]
    return Annotated(int(header[1]), tuple(instructions))


def _parts(match: re.Match[str]) -> tuple[str, str, str]:
    return match[1], match[2], match[3]


def function(text: str, symbol: str) -> list[Instruction]:
    """Return the instructions of the function `symbol` in the output of `objdump -d`.

    The result is empty if the output does not have the function."""
    found: list[Instruction] = []
    inside = False
    for line in text.splitlines():
        if (name := _SYMBOL.fullmatch(line)) is not None:
            inside = name[1] == symbol
        elif inside and (code := _CODE.fullmatch(line)) is not None:
            found.append(Instruction(int(code[1], 16), code[2].rstrip()))
    return found


def everything(text: str) -> list[Instruction]:
    """Return all instructions in the output of `objdump -d`, in order."""
    found = (_CODE.fullmatch(line) for line in text.splitlines())
    return [Instruction(int(match[1], 16), match[2].rstrip()) for match in found if match]


def contains(code: Sequence[Instruction], wanted: Sequence[Instruction]) -> bool:
    """Return whether `code` contains the function `wanted` as one contiguous sequence of instructions.

    Jumps within the function are compared relative to its beginning. Other addresses depend on linking and are
    ignored, and so is padding at the end."""
    plain = _without_padding(wanted)
    if not plain:
        return False
    mine = _comparable(plain, plain[0].address, plain[-1].address)
    length = plain[-1].address - plain[0].address
    first = plain[0].text
    for place in range(len(code) - len(plain) + 1):
        if code[place].text == first:
            begin = code[place].address
            if _comparable(code[place : place + len(plain)], begin, begin + length) == mine:
                return True
    return False


def _without_padding(code: Sequence[Instruction]) -> Sequence[Instruction]:
    end = len(code)
    while end and code[end - 1].text.startswith(_PADDING):
        end -= 1
    return code[:end]


def _comparable(code: Iterable[Instruction], begin: int, end: int) -> list[str]:
    def relative(match: re.Match[str]) -> str:
        target = int(match[1], 16)
        return f"+{target - begin:x}" if begin <= target <= end else "elsewhere"

    return [_TARGET.sub(relative, _RELATIVE.sub("(%rip)", each.text)) for each in code]
