"""Expand sweeps into a plan.

The functions of this file read no file and start no tool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.cases.module import Module
from dispatchflow.cases.provider import unsupported
from dispatchflow.errors import NothingMatched, SpecError, suggestion
from dispatchflow.iree import flags
from dispatchflow.iree.targets import Target
from dispatchflow.libraries.providers import IREE, LIBRARIES
from dispatchflow.operations import Operation
from dispatchflow.planning.parser import Sweep
from dispatchflow.planning.patterns import any_match, matches
from dispatchflow.tunings import TUNINGS, Tuning
from dispatchflow.workload import Workload

MAX_CASES = 1_000_000
(_DEFAULT,) = TUNINGS["default"].expand({})


@dataclass(frozen=True, slots=True)
class Skip:
    """A combination of a sweep's values that is not possible, and the reason. A skip is not an error."""

    name: str
    reason: str
    place: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The cases that sweeps request, and the impossible combinations that are skipped.

    The field `tags` is a dict from each case to the tags of all sweeps that request it."""

    cases: tuple[Case, ...]
    tags: dict[Case, tuple[str, ...]]
    skips: tuple[Skip, ...]
    notes: tuple[str, ...]
    noisy: dict[Case, float] = field(default_factory=dict)
    """A dict from a case to the uncertainty of the median above which the case is marked as noisy.

    Only the cases of sweeps that set `noisy` are included. If several such sweeps request a case, the smallest value
    counts."""


def expand(sweeps: Iterable[Sweep], tags: Sequence[str] = ()) -> Plan:
    """Combine the values of each sweep into cases; equal cases of several sweeps become one.

    If `tags` is not empty, only sweeps with a matching tag are used.

    Raises:
        SpecError: a sweep has more than `MAX_CASES` combinations, or cases with different modules have the same name.
    """
    found: dict[Case, tuple[str, ...]] = {}
    skips: dict[str, Skip] = {}
    notes: dict[str, None] = {}
    modules: dict[str, Case] = {}
    noisy: dict[Case, float] = {}
    for sweep in sweeps:
        if tags and not any_match(sweep.tags, tags):
            continue
        _check_size(sweep)
        notes.update(
            {
                f"{sweep.place}.{dim}: {note}": None
                for dim, a in zip(sweep.operation.dims, sweep.dims, strict=False)
                for note in a.notes
            }
        )
        skips.update({each.name: Skip(each.name, each.reason, sweep.place) for each in sweep.lacking})
        item = None
        for item in _combinations(sweep):
            if isinstance(item, Skip):
                skips.setdefault(item.name, item)
            else:
                _check_name(item, modules, sweep.place)
                if sweep.noisy is not None:
                    noisy[item] = min(sweep.noisy, noisy.get(item, sweep.noisy))
                before = found.get(item)
                found[item] = sweep.tags if before is None else tuple(dict.fromkeys((*before, *sweep.tags)))
        if item is None and (sweep.include or sweep.exclude):
            notes[f"{sweep.place}: include and exclude leave no case"] = None
    return Plan(tuple(found), found, tuple(skips.values()), tuple(notes), noisy)


def check_tags(sweeps: Iterable[Sweep], tags: Sequence[str]) -> None:
    """Check that each of `tags` matches a tag of a sweep. Patterns such as `net:*` are allowed.

    Raises:
        NothingMatched: one of `tags` matches no sweep's tag.
    """
    known = dict.fromkeys(tag for sweep in sweeps for tag in sweep.tags)
    if lacking := [tag for tag in tags if not any_match(known, [tag])]:
        facts = {"given": ", ".join(lacking), "tags": ", ".join(known) or "none"}
        raise NothingMatched("no sweep has this tag", facts, suggestion(lacking[0], known))


def _check_name(case: Case, known: dict[str, Case], place: str) -> None:
    """Raise SpecError if a different case of a user's module already has the name of `case`.

    `known` is a dict from names to the cases that were checked before; `case` is added to it."""
    # Such cases would share their result rows. A name contains neither the module's inputs nor its directory.
    if type(case.operation) is Module and known.setdefault(case.name, case) != case:
        facts = {"spec": place, "name": case.name, "file": case.operation.source.path}
        raise SpecError(
            "two modules have this name", facts, 'Name them in two sweeps, and give one a title: name = "…".'
        )


def _check_size(sweep: Sweep) -> None:
    axes = {dim: len(a) for dim, a in zip(sweep.operation.dims, sweep.dims, strict=False)}
    axes |= {"shape": len(sweep.shapes)} if sweep.shapes else {}
    if sweep.modules:
        axes |= {"module": len(sweep.modules)}
    else:
        axes |= {"dtype": len(sweep.signatures), "layout": len(sweep.layouts)}
        axes |= {word: len(values) for word, values in sweep.options.items()}
    axes |= {"tuning": len(sweep.tunings), "target": len(sweep.targets), "threads": len(sweep.threads)}
    axes |= {"flags": len(sweep.flags)}
    axes |= {"provider": len(sweep.providers), "cache": len(sweep.caches)}
    if (count := prod(axes.values())) > MAX_CASES:
        facts = {
            "spec": sweep.place,
            "axes": " × ".join(f"{n} {name}" for name, n in axes.items() if n > 1),
            "allowed": f"{MAX_CASES:,}",
        }
        raise SpecError(f"a sweep of {count:,} cases", facts, "Take larger steps, or split it.")


def _combinations(sweep: Sweep) -> Iterator[Case | Skip]:
    # Libraries have no tunings, so each library is combined with the default tuning only.
    ways = [(tuning, IREE) for tuning in sweep.tunings if IREE in sweep.providers]
    ways += [(_DEFAULT, provider) for provider in sweep.providers if provider != IREE]
    for program in sweep.modules if sweep.operation is Module else _operations(sweep):
        unfit = {target.name: unsupported_workload(program, target) for target in sweep.targets}
        for (tuning, provider), target in product(ways, sweep.targets):
            dispatch, several = Dispatch(program, tuning), sweep.flags if provider == IREE else ((),)
            if provider == IREE:
                reason = unfit[target.name] or unsupported_tuning(program, tuning, target)
            else:
                reason = unsupported(LIBRARIES[provider], program, target)
            for threads, extra, cache in product(sweep.threads, several, sweep.caches):
                if type(program) is Module:
                    dispatch = Dispatch(program.compiled_with(extra), tuning)
                case = Case(dispatch, target, threads if target.has_threads else None, extra, provider, cache)
                if (sweep.include and not _matches(case.name, sweep.include)) or _matches(case.name, sweep.exclude):
                    continue
                why = reason or _flag_conflict(tuning, extra)
                yield case if why is None else Skip(case.name, why, sweep.place)


def _flag_conflict(tuning: Tuning, extra: flags.Flags) -> str | None:
    """Return the reason to skip a case if its extra compiler flags would override a flag of its tuning.

    Returns None if no flag would be overridden."""
    # Such a case is skipped: the compiler's output does not always show whether the tuning's flag had an effect.
    flag = flags.shared(tuning.flags, extra) if extra else None
    return flag and f"{flag} is set by {tuning.name}; another one after it would override it"


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return bool(patterns) and any(matches(name, pattern) for pattern in patterns)


def _operations(sweep: Sweep) -> Iterator[Operation]:
    assert issubclass(sweep.operation, Operation)
    options = product(*sweep.options.values())
    if sweep.shapes:
        for shape, signature, layout, values in product(sweep.shapes, sweep.signatures, sweep.layouts, options):
            yield sweep.operation(shape.sizes, signature, layout, shape.chosen(tuple(sweep.options), values))
        return
    sizes = product(*(a.values() for a in sweep.dims))
    for size, signature, layout, chosen in product(sizes, sweep.signatures, sweep.layouts, options):
        yield sweep.operation(size, signature, layout, chosen)


def unsupported_workload(program: Workload, target: Target) -> str | None:
    """Return the reason why `program` is skipped on `target`, whatever the tuning is.

    Returns None if `program` may work on `target` with some tuning."""
    if not isinstance(program, Operation):
        return None
    return program.illegal(target.backend)


def unsupported_tuning(program: Workload, tuning: Tuning, target: Target) -> str | None:
    """Return the reason why `program` with `tuning` is skipped on `target`.

    Returns None if this combination can be tried."""
    if not isinstance(program, Operation):
        if tuning.annotates:
            return f"{tuning.family} is written on an operation, not into a user's module"
        return tuning.unknown_to(target.backend)
    return (
        tuning.unknown_to(target.backend) or tuning.illegal(program, target.backend) or tuning.exceeds(program, target)
    )
