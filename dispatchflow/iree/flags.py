"""Parse the extra compiler flags that a spec may give, and shorten them for the names of cases."""

from __future__ import annotations

import re
import shlex

from dispatchflow.iree.targets import TARGETS
from dispatchflow.keys import digest_of

Flags = tuple[str, ...]

_FLAG = re.compile(r"--([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)

_DEMOTION = "--iree-input-demote-f64-to-f32"
FORMED = "--compile-from=flow"
"""The flag for a module whose dispatches are already formed. Only the phases after `flow` then run."""
_DEFAULTS = {_DEMOTION}
"""Flags that a target sets, but that a spec may give too. The spec's value then replaces the target's."""
# Flags that each target sets. If a flag is given twice, the compiler silently takes the last.
_OURS = {flag.split("=")[0] for target in TARGETS.values() for flag in target.flags} - _DEFAULTS
_REFUSED = {
    "end before a module is written": "compile|help|version",
    "run each dispatch more than once a call": "benchmark",
    "write modules that dispatchflow does not read": "polyglot",
    "decide the target": "target|targets|backend|backends|device|devices",
    "read or write other files": "dump|output|path|paths|file|files|filename|dir|directory|import|export|splat|replay"
    "|reproducer|substitute|plugin|(?<!ukernel-)bitcode|listing|artifacts|library|(?:to|from|with)$",
}
_HINT = 'for your own tuning spec or library, write tuning = {family = "tuning_spec", file = …}'


def parse(written: str) -> Flags:
    """Split a spec's text of compiler flags into single flags.

    An example of the text is `--iree-opt-level=O2 --iree-opt-const-eval=false`.

    Raises:
        ValueError: a word is not `--name` or `--name=value`, or the flag is not allowed; the message says why.
    """
    flags = tuple(shlex.split(written))  # raises ValueError for a missing closing quote
    for flag in flags:
        if flag == FORMED:
            continue
        match = _FLAG.fullmatch(flag)
        if match is None:
            raise ValueError(f"'{flag}' is not a flag: write --name or --name=value")
        if f"--{match[1]}" in _OURS:
            raise ValueError(f"--{match[1]} is set by the target, or to give equal code equal bytes")
        for what, words in _REFUSED.items():
            if re.search(rf"(?:^|-)(?:{words})(?:-|$)", match[1]):
                hint = f"; {_HINT}" if "files" in what else ""
                raise ValueError(f"--{match[1]} may {what}, which is not allowed in this axis{hint}")
        if "/" in (match[2] or ""):
            raise ValueError(f"{flag} names a file, whose content would not enter the key; {_HINT}")
    return flags


def of_meaning(flags: Flags) -> Flags:
    """Return the flags of a case that must also be used to compile the case's reference.

    The reference is the case's module, compiled for the target that computes the expected results."""
    # The flags in `_DEFAULTS` change results. `FORMED` is needed if the module's dispatches are already formed.
    return tuple(flag for flag in flags if flag.partition("=")[0] in _DEFAULTS or flag == FORMED)


def with_formed(flags: Flags) -> Flags:
    """Return the flags, with `--compile-from=flow` (`FORMED`) added if it is missing."""
    return flags if FORMED in flags else (*flags, FORMED)


def demotes(flags: Flags) -> bool:
    """Return whether the flags make the compiler replace f64 by f32.

    This replacement also changes the types of the module's functions."""
    given = [flag.partition("=") for flag in flags if flag.partition("=")[0] == _DEMOTION]
    return bool(given) and (not given[-1][1] or given[-1][2].lower() in ("true", "1"))


def behind(own: Flags, flags: Flags) -> Flags:
    """Return all flags of a compile: `own` (the target's and the tuning's), then `flags` (the spec's).

    If the spec gives a flag for which the target has a default, the spec's flag replaces the default."""
    replacing = {name: flag for flag in flags if (name := flag.partition("=")[0]) in _DEFAULTS}
    if not replacing:
        return own + flags
    kept = tuple(replacing.get(flag.partition("=")[0], flag) for flag in own)
    return kept + tuple(flag for flag in flags if flag.partition("=")[0] not in replacing)


def shared(own: Flags, flags: Flags) -> str | None:
    """Return the first flag in `flags` that has the same name as a flag in `own`.

    Returns None if no name is in both. The compiler would silently take the second of two flags with the same name."""
    names = {flag.partition("=")[0] for flag in own}
    return next((flag for flag in flags if flag.partition("=")[0] in names), None)


def quoted(flags: Flags) -> str:
    """Join flags into one text, quoted so that `parse` splits it into the same flags."""
    return shlex.join(flags)


def label(flags: Flags) -> str:
    """Return the part of a case's name that stands for the flags, such as `+opt-level.O2`.

    The part is empty if there are no flags. Different flags have different labels."""
    return "".join(f"+{_short(flag)}" for flag in flags)


def _short(flag: str) -> str:
    name, equals, value = flag.partition("=")
    name = name.removeprefix("--iree-")  # a flag that is not IREE's own keeps its dashes
    if equals and not re.fullmatch(r"[\w-]+", value, re.ASCII):
        readable = re.sub(r"[^\w-]+", "-", value, flags=re.ASCII)[:20]
        return f"{name}.{readable}.{digest_of(flag.encode())[:8]}"
    return f"{name}.{value}" if equals else name
