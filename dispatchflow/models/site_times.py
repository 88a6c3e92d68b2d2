"""Compute the time of each site, and the other parts of a call's time.

A site is a place of a program that launches a dispatch. A block is one profiled process. It runs several repetitions,
each with several calls. Usually only the last repetition is measured (see `measured_calls`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final, NamedTuple

import msgspec

from dispatchflow.errors import ToolError
from dispatchflow.iree.profile_events import Launch, Profile, QueueOperation, Repetition
from dispatchflow.models.call_split import Split, apportioned, own_times, split_of
from dispatchflow.models.matching import Group, matched, name_of
from dispatchflow.models.site import Program
from dispatchflow.timing.statistics import Summary, summary

AT_LOAD: Final = "at load"
NOT_LAUNCHED: Final = "not launched"


class IncompleteProfile(ToolError):
    """The runtime lost events, because the thread that reads its ring buffer waited for a CPU."""


class Calls(NamedTuple):
    """The profiling events of the measured calls of a block (one profiled process)."""

    launches: tuple[tuple[Group, Launch], ...]
    """Each launch, with the numbers of the sites to which it may belong, such as `(3,)` or `(3, 7)`."""
    operations: tuple[QueueOperation, ...]
    calls: int
    total_ns: int
    """The wall time of all measured calls together."""
    steady: bool
    """True if all calls submitted the same operations."""


class SiteBlock(msgspec.Struct, frozen=True):
    """The executions of one site in all measured calls of one profiled process.

    If several sites cannot be distinguished, the fields describe the executions of all of them together."""

    sites: Group
    executions: int
    total_ns: int
    """The sum of all executions' times, each from the start of its first workgroup to the end of its last."""
    own_ns: int
    """Like `total_ns`, but while n dispatches run in parallel, each of them counts only 1/n of the time."""
    workers_ns: int | None
    """The time of all workgroups, summed over all workers; None if the device does not report this time."""
    workgroups: tuple[int, int, int] | None
    """The number of workgroups in x, y and z; None if the numbers differ between executions."""


class Block(msgspec.Struct, frozen=True):
    """The times in one profiled process; each is a sum over all measured calls."""

    calls: int
    steady: bool
    """True if all calls submitted the same operations. If not, the times include the warm-up calls."""
    split: Split
    sites: tuple[SiteBlock, ...]


class SiteTime(msgspec.Struct, frozen=True):
    """The time of a site, or of sites that cannot be distinguished."""

    sites: Group
    executions: float
    """The mean number of executions in one call."""
    blocks_ns: tuple[float, ...]
    """The total time of the site's executions in one call; one number for each block (profiled process)."""
    own_ns: int
    """The site's part of the time in which dispatches run. All parts add up to `Split.dispatches_ns`."""
    share: float
    """`own_ns` as a fraction of the wall time of the call."""
    workgroups: tuple[int, int, int] | None
    """The number of workgroups in x, y and z; None if it varies, for example because of dynamic sizes."""
    workers: float | None
    """The mean number of workers that ran the site at the same time; None if this number is unknown."""

    @property
    def name(self) -> str:
        """The numbers of the sites as text: `3`, or `3|7` for sites that cannot be distinguished."""
        return name_of(self.sites)

    @property
    def summary(self) -> Summary:
        """The median of `blocks_ns`, and its confidence interval."""
        return summary(self.blocks_ns)


class ProgramTimes(msgspec.Struct, frozen=True):
    """The times of all sites of a program, and the parts of the wall time of one call of the program."""

    sites: tuple[SiteTime, ...]
    """The times of the sites that were launched in the measured calls, in program order."""
    untimed: dict[int, str]
    """A dict of the sites that have no time: the keys are their numbers, the values are the reasons.

    The reason is `at load` for a site that runs when the program is loaded, and otherwise `not launched`."""
    split: Split
    """The parts of one call's time, in whole ns, from the profiled process with the median call time."""
    steady: bool
    """True if all calls submitted the same operations."""
    at_load_ns: int | None = None
    """The time in ns that dispatches take while the program is loaded; None if unknown or if none run.

    A profile begins after the load. The loading of the program is therefore recorded, then profiled in a replay."""
    load_unknown: str | None = None
    """The reason why `at_load_ns` is unknown in a program whose initializers launch dispatches."""

    @property
    def ambiguous(self) -> tuple[Group, ...]:
        """The groups of sites that cannot be distinguished from each other in the profiles."""
        return tuple(each.sites for each in self.sites if len(each.sites) > 1)


def read_block(program: Program, profile: Profile, repetitions: Sequence[Repetition]) -> Block:
    """Return the times in one profiled process, summed over its measured calls (see `measured_calls`).

    Raises:
        ToolError: `profile` is incomplete, or contradicts `program` or `repetitions`."""
    found = measured_calls(program, profile, repetitions)
    split = split_of([launch for _, launch in found.launches], found.operations, found.total_ns)
    return Block(found.calls, found.steady, split, _sites(found.launches))


def measured_calls(program: Program, profile: Profile, repetitions: Sequence[Repetition]) -> Calls:
    """Return the profiling events of the measured calls of one process.

    If all calls submit the same operations, only the calls of the last repetition are measured; earlier calls are
    warm-up. Otherwise all calls are measured.

    Raises:
        ToolError: the profile is incomplete, or its launches do not match the program's sites."""
    if profile.dropped:
        raise IncompleteProfile(
            f"the profile is incomplete: {profile.dropped} records were dropped",
            {"dispatches": len(profile.launches)},
            "Measure again when the machine has less to do.",
        )
    placed = matched(program, profile)
    first = first_measured(profile, repetitions)
    measured = repetitions if first is None else repetitions[-1:]
    start = first or 0
    return Calls(
        tuple((group, each) for group, each in placed if each.submission >= start),
        tuple(each for each in profile.operations if each.submission >= start),
        sum(each.calls for each in measured),
        sum(each.total_ns for each in measured),
        first is not None,
    )


def load_ns(program: Program, times: ProgramTimes, profile: Profile, loads: int) -> int | None:
    """Return the time, in ns, that dispatches take while a program is loaded.

    Initializers may launch dispatches. The result is the median of `loads` loads, or None if the time cannot be
    determined."""
    # The profile has replays of a load and one call. `times` has the number of launches in the call.
    one, rest = divmod(len(profile.launches), loads)
    before = one - sum(round(site.executions) for site in times.sites)
    kernels = {site.export for site in program.sites if site.at_load}
    found = [profile.launches[i * one : i * one + before] for i in range(loads)]
    if rest or profile.dropped or before < 1 or any(each.export not in kernels for load in found for each in load):
        return None
    return round(median(sum(own_times(load)) for load in found))


def first_measured(profile: Profile, repetitions: Sequence[Repetition]) -> int | None:
    """Return the ID of the first queue submission in the last repetition.

    Earlier repetitions are warm-up. The result is None if the ID cannot be determined."""
    dispatches: dict[int, list[str]] = defaultdict(list)
    for launch in profile.launches:
        dispatches[launch.submission].append(launch.export)
    # The profile does not show where a repetition begins. Therefore operations are counted.
    done = [(each.kind, tuple(dispatches[each.submission])) for each in profile.operations]
    calls = sum(each.calls for each in repetitions)
    one, rest = divmod(len(done), calls)
    # If calls submit different operations, counting does not find the last repetition.
    if rest or done != done[:one] * calls:
        return None
    warm = one * (calls - repetitions[-1].calls)
    return profile.operations[warm].submission if done else 0


def _sites(launches: Sequence[tuple[Group, Launch]]) -> tuple[SiteBlock, ...]:
    own: dict[Group, int] = defaultdict(int)
    grouped: dict[Group, list[Launch]] = defaultdict(list)
    for (group, launch), own_ns in zip(launches, own_times([launch for _, launch in launches]), strict=True):
        own[group] += own_ns
        grouped[group].append(launch)
    return tuple(_site(group, grouped[group], own[group]) for group in sorted(grouped))


def _site(group: Group, launches: Sequence[Launch], own_ns: int) -> SiteBlock:
    workgroups = {launch.workgroups for launch in launches}
    workers = [launch.workers_ns for launch in launches if launch.workers_ns is not None]
    return SiteBlock(
        group,
        len(launches),
        sum(launch.duration_ns for launch in launches),
        own_ns,
        sum(workers) if len(workers) == len(launches) else None,
        workgroups.pop() if len(workgroups) == 1 else None,
    )


def program_times(program: Program, blocks: Sequence[Block]) -> ProgramTimes:
    """Combine the times of several blocks of the same program.

    Raises:
        IndexError: there are no blocks.
    """
    typical = sorted(blocks, key=lambda block: block.split.call_ns / block.calls)[(len(blocks) - 1) // 2]
    groups = _groups(blocks)
    merged = [_merged(block, groups) for block in blocks]
    ours = _merged(typical, groups)
    parts = typical.split
    sums = [ours[group].own_ns if group in ours else 0 for group in groups]
    rest = [parts.launching_ns, parts.allocation_ns, parts.waiting_ns, parts.host_ns]
    own, others = _per_call(sums, rest, parts.call_ns, typical.calls)
    split = Split(sum(own) + sum(others), sum(own), *others)
    sites = tuple(
        _time(group, [each.get(group) for each in merged], [block.calls for block in blocks], own_ns, split.call_ns)
        for group, own_ns in zip(groups, own, strict=True)
    )
    launched = {site for group in groups for site in group}
    untimed = {
        site.number: AT_LOAD if site.at_load else NOT_LAUNCHED for site in program.sites if site.number not in launched
    }
    return ProgramTimes(sites, untimed, split, all(block.steady for block in blocks))


def _per_call(sums: Sequence[int], rest: Sequence[int], call_ns: int, calls: int) -> tuple[list[int], list[int]]:
    parts = apportioned([*sums, *rest], (call_ns + calls // 2) // calls)
    return parts[: len(sums)], parts[len(sums) :]


def _groups(blocks: Iterable[Block]) -> list[Group]:
    """Unite groups that have a site in common: (3, 7) and (7, 9) become (3, 7, 9)."""
    whole: dict[int, set[int]] = {}
    for group in {site.sites for block in blocks for site in block.sites}:
        union = set(group).union(*(whole.get(site, ()) for site in group))
        whole.update(dict.fromkeys(union, union))
    return sorted({tuple(sorted(union)) for union in whole.values()})


def _merged(block: Block, groups: Iterable[Group]) -> dict[Group, SiteBlock]:
    group_of = {site: group for group in groups for site in group}
    found: dict[Group, SiteBlock] = {}
    for site in block.sites:
        whole = group_of[site.sites[0]]
        found[whole] = _sum(whole, found[whole], site) if whole in found else site
    return found


def _sum(group: Group, one: SiteBlock, other: SiteBlock) -> SiteBlock:
    both = None if one.workers_ns is None or other.workers_ns is None else one.workers_ns + other.workers_ns
    return SiteBlock(
        group,
        one.executions + other.executions,
        one.total_ns + other.total_ns,
        one.own_ns + other.own_ns,
        both,
        one.workgroups if one.workgroups == other.workgroups else None,
    )


def _time(group: Group, found: Sequence[SiteBlock | None], calls: Sequence[int], own_ns: int, call_ns: int) -> SiteTime:
    there = [each for each in found if each is not None]
    executions = sum(each.executions for each in there) / sum(calls)
    total_ns = sum(each.total_ns for each in there)
    workers = [each.workers_ns for each in there if each.workers_ns is not None]
    workgroups = {each.workgroups for each in there}
    return SiteTime(
        group,
        executions,
        tuple((each.total_ns if each else 0) / count for each, count in zip(found, calls, strict=True)),
        own_ns,
        own_ns / call_ns if call_ns else 0.0,
        workgroups.pop() if len(workgroups) == 1 else None,
        sum(workers) / total_ns if len(workers) == len(there) and total_ns else None,
    )
