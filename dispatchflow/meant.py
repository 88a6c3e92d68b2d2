"""Which operations a sweep of the command line means that names none: by its dims, or by its shapes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from dispatchflow.errors import SpecError, suggestion
from dispatchflow.operations import OPERATIONS, OPTIONS
from dispatchflow.shapes import classes, classes_of

_SIZES = re.compile(r"\d+(?:x\d+)*")


def by_dims(dims: Collection[str], words: Iterable[str]) -> str:
    """The one operation that has all these dims, no other, and the options among `words`.

    Raises:
        SpecError: there is none, or there are several.
    """
    options = [word for word in words if word in OPTIONS]
    fitting = [name for name, operation in OPERATIONS.items() if set(dims) <= set(operation.dims)]
    having = [name for name in fitting if set(options) <= set(OPERATIONS[name].options)]
    exact = _of_just(dims, having)
    if len(found := exact or having) == 1:
        return found[0]
    given = {"given": ", ".join([*dims, *options])}
    if exact:
        hint = f"Say which: operation={exact[0]}."
        raise SpecError("several operations have these dims", {**given, "known": _spelt(exact)}, hint)
    if having:
        facts = {**given, "known": _spelt(having)}
        raise SpecError("no operation has just these dims", facts, "Give all dims of one of them.")
    if not fitting:
        facts = {**given, "known": _spelt(OPERATIONS)}
        raise SpecError("no operation has these dims", facts, "Give all dims of one of them.")
    meant = (_of_just(dims, fitting) or fitting)[0]
    word = next((word for word in options if word not in OPERATIONS[meant].options), options[0])
    facts = {**given, f"{word} have": _spelt(name for name in OPERATIONS if word in OPERATIONS[name].options)}
    raise SpecError(
        f"{meant} has no word '{word}'", facts, f"Leave {word}= out, or give the dims of another operation."
    )


def by_shapes(written: str, words: Iterable[str]) -> list[str]:
    """The operations that have all these classes of shapes and the options among `words`.

    Raises:
        SpecError: there is none.
    """
    options = {word for word in words if word in OPTIONS}
    named = written.replace(",", " ").split()
    fitting = [name for name, operation in OPERATIONS.items() if options <= set(operation.options)]
    if found := [name for name in fitting if set(named) <= set(classes_of(name))] if named else []:
        return found
    facts = {"given": ", ".join([*named, *sorted(options)])}
    if sizes := next((word for word in named if _SIZES.fullmatch(word)), None):
        count = sizes.count("x") + 1
        having = [name for name in fitting if len(OPERATIONS[name].dims) == count]
        several = "several operations have" if having else "no operation has"
        facts["known"] = _spelt(having or fitting)
        hint = f"Say which: operation={having[0]}." if having else ""
        raise SpecError(f"{several} {count} dims, as {sizes} has", facts, hint)
    unknown = next((word for word in named if word not in classes()), "")
    raise SpecError(
        "no operation has all these shapes", {**facts, "classes": ", ".join(classes())}, suggestion(unknown, classes())
    )


def _of_just(dims: Collection[str], names: Iterable[str]) -> list[str]:
    """Those that have no other dims; of these the ones that dims choose."""
    exact = [name for name in names if len(OPERATIONS[name].dims) == len(dims)]
    return [name for name in exact if OPERATIONS[name].by_dims] or exact


def _spelt(names: Iterable[str]) -> str:
    return "; ".join(f"{name}: {', '.join(OPERATIONS[name].dims)}" for name in names)
