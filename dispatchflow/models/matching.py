"""Find out which site of a program launched each dispatch in a profile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from dispatchflow.errors import ToolError
from dispatchflow.iree.profile_events import Launch, Profile
from dispatchflow.models.site import Program, Site

Group = tuple[int, ...]
"""The numbers of the sites that may have launched a dispatch, ascending: usually one, as in `(3,)`."""


def name_of(group: Group) -> str:
    """Return the numbers of a group's sites as text: `3`, or `3|7` for sites that cannot be distinguished."""
    return "|".join(map(str, group))


def matched(program: Program, profile: Profile) -> list[tuple[Group, Launch]]:
    """Return each launch of a profile, in order, with the group of sites to which it may belong.

    A group has several sites if they cannot be distinguished. Sites in initializers, which run before the first call,
    are in no group.

    Raises:
        ToolError: a submission has a sequence of launches that no command buffer of the program has."""
    buffers = _command_buffers(program)
    candidates = defaultdict(list)
    for number, sites in enumerate(buffers):
        candidates[tuple(site.export for site in sites)].append(number)
    runs = _submissions(profile.launches)
    for run in runs:
        if _exports(run) not in candidates:
            raise _unmatched(run, buffers)
    # Command buffers with equal sequences of exports are distinguished by the order of their creation.
    allowed = _by_order_of_creation(runs, candidates)
    places = [
        (tuple(buffers[number][place].number for number in numbers), launch)
        for run in runs
        for numbers in [allowed.get(run[0].command_buffer, candidates[_exports(run)])]
        for place, launch in enumerate(run)
    ]
    groups = _joined({place for place, _ in places})
    return [(groups[place[0]], launch) for place, launch in places]


def _command_buffers(program: Program) -> list[list[Site]]:
    """Return the sites of each command buffer, in the order in which the command buffers are created.

    Sites in initializers are left out."""
    sites = sorted(
        (site for site in program.sites if not site.at_load), key=lambda site: (site.command_buffer, site.command)
    )
    return [list(each) for _, each in groupby(sites, key=lambda site: site.command_buffer)]


def _submissions(launches: Sequence[Launch]) -> list[list[Launch]]:
    return [list(run) for _, run in groupby(launches, key=lambda each: (each.submission, each.command_buffer))]


def _exports(run: Sequence[Launch]) -> tuple[str, ...]:
    return tuple(launch.export for launch in run)


def _by_order_of_creation(
    runs: Sequence[Sequence[Launch]], candidates: Mapping[tuple[str, ...], Sequence[int]]
) -> dict[int, list[int]]:
    """Match the command buffers of a profile with those of the program, by order of creation.

    `{4: [0, 2]}` means that command buffer 4 of the profile is command buffer 0 or 2 of the program."""
    sequences: dict[int, set[tuple[str, ...]]] = defaultdict(set)
    count: dict[int, int] = defaultdict(int)
    for run in runs:
        sequences[run[0].command_buffer].add(_exports(run))
        count[run[0].command_buffer] += 1
    # A command buffer with one submission may be recorded again in each call: its number then shows nothing.
    kept = {number: sequences[number] for number in sorted(count) if count[number] > 1}
    if any(len(each) > 1 for each in kept.values()):
        return {}
    possible = [(number, candidates[next(iter(each))]) for number, each in kept.items()]
    # The numbers in the profile and in the program both ascend in the order of creation.
    earliest = _ascending([numbers for _, numbers in possible])
    latest = _ascending([[-number for number in reversed(numbers)] for _, numbers in reversed(possible)])
    if earliest is None or latest is None:
        return {}
    return {
        number: [each for each in numbers if first <= each <= -last]
        for (number, numbers), first, last in zip(possible, earliest, reversed(latest), strict=True)
    }


def _ascending(choices: Iterable[Sequence[int]]) -> list[int] | None:
    """Choose one number from each of `choices` so that the result strictly ascends; prefer small numbers.

    Each of `choices` must be in ascending order. If no strictly ascending result is possible, return None."""
    found: list[int] = []
    for choice in choices:
        above = [number for number in choice if not found or number > found[-1]]
        if not above:
            return None
        found.append(above[0])
    return found


def _joined(groups: Iterable[Group]) -> dict[int, Group]:
    """Unite groups that have a site in common; return a dict from each site's number to its united group."""
    whole: dict[int, set[int]] = {}
    for group in groups:
        union = set(group).union(*(whole.get(site, ()) for site in group))
        for site in union:
            whole[site] = union
    return {site: tuple(sorted(group)) for site, group in whole.items()}


def _unmatched(run: Sequence[Launch], buffers: Iterable[Sequence[Site]]) -> ToolError:
    exports = _exports(run)
    known = {site.export for sites in buffers for site in sites}
    strange = [export for export in exports if export not in known]
    facts: dict[str, object] = {"submission": run[0].submission, "dispatches": len(exports)}
    if strange:
        return ToolError(f"the profile has a dispatch that is no site of the program, {strange[0]}", facts)
    facts["exports"] = ", ".join(exports[:4]) + (", …" if len(exports) > 4 else "")
    return ToolError("the profile has a sequence of dispatches that no command buffer of the program has", facts)
