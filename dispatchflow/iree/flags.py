"""Extra compiler flags as an axis: what a spec may say, and how names show it."""

from __future__ import annotations

import re
import shlex

from dispatchflow.iree.targets import TARGETS
from dispatchflow.keys import digest_of

Flags = tuple[str, ...]

_FLAG = re.compile(r"--([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)

# Ours, or decided by the target; the compiler takes the last of two, in silence.
_OURS = {flag.split("=")[0] for target in TARGETS.values() for flag in target.flags}
_REFUSED = {
    "end before there is a module": "compile|help|version",
    "run each dispatch more than once a call": "benchmark",
    "write modules that nothing here reads": "polyglot",
    "decide the target": "target|targets|backend|backends|device|devices",
    "read or write other files": "dump|output|path|paths|file|files|filename|dir|directory|import|export|splat|replay"
    "|reproducer|substitute|plugin|(?<!ukernel-)bitcode|listing|artifacts|library|(?:to|from|with)$",
}
_HINT = 'a spec or library of your own is tuning = {family = "tuning_spec", file = …}'


def parse(written: str) -> Flags:
    """The flags of one value of the axis, `--iree-opt-level=O2 --iree-opt-const-eval=false`; none of an empty one.

    Raises:
        ValueError: something else than `--name` or `--name=value`, or not for this axis; the message says why.
    """
    flags = tuple(shlex.split(written))  # which raises a ValueError of its own: a quotation that does not end
    for flag in flags:
        match = _FLAG.fullmatch(flag)
        if match is None:
            raise ValueError(f"'{flag}' is no flag: --name or --name=value")
        if f"--{match[1]}" in _OURS:
            raise ValueError(f"--{match[1]} is set by the target, or so that equal code has equal bytes")
        for what, words in _REFUSED.items():
            if re.search(rf"(?:^|-)(?:{words})(?:-|$)", match[1]):
                hint = f"; {_HINT}" if "files" in what else ""
                raise ValueError(f"--{match[1]} may {what}, which this axis may not{hint}")
        if "/" in (match[2] or ""):
            raise ValueError(f"{flag} names a file, whose content no key would have; {_HINT}")
    return flags


def shared(own: Flags, flags: Flags) -> str | None:
    """The first of `flags` that is one of a tuning's own flags again, whatever it says: the compiler takes the last."""
    names = {flag.partition("=")[0] for flag in own}
    return next((flag for flag in flags if flag.partition("=")[0] in names), None)


def quoted(flags: Flags) -> str:
    """As `parse` reads them."""
    return shlex.join(flags)


def label(flags: Flags) -> str:
    """`+opt-level.O2` behind the tuning's name; nothing where there are none. Injective: what has other letters than
    `--iree-name=value` ends in a digest."""
    return "".join(f"+{_short(flag)}" for flag in flags)


def _short(flag: str) -> str:
    name, equals, value = flag.partition("=")
    name = name.removeprefix("--iree-")  # another's flag keeps its dashes
    if equals and not re.fullmatch(r"[\w-]+", value, re.ASCII):
        readable = re.sub(r"[^\w-]+", "-", value, flags=re.ASCII)[:20]
        return f"{name}.{readable}.{digest_of(flag.encode())[:8]}"
    return f"{name}.{value}" if equals else name
