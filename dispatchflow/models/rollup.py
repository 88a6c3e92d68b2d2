"""Add up the times of a program's sites by source operation, by scope or by executable.

A site is a place of the program that launches a dispatch. A source operation is an operation that the user wrote. A
scope is a prefix of the names of source operations, such as `blocks.0`. The time of each site is in exactly one sum.
If times are added up by source operation, a site that computes `conv1` and `relu1` is in the sum named
`conv1 + relu1`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from dispatchflow.models.site import Program, Site, SourceOperation
from dispatchflow.models.site_times import ProgramTimes, SiteTime
from dispatchflow.timing.statistics import Summary, summary

By = Literal["op", "scope", "executable"]

UNNAMED = "(no name)"
"""The scope (prefix of a name) to which operations without a name belong."""

NO_SOURCE = "(no source operation)"
"""The name under which the times of sites without known source operations are added up."""

_SETUP = frozenset({"linalg.fill", "tensor.empty", "arith.constant", "onnx.Constant"})
"""Kinds of operations that are left out of a site's name if the site also computes other operations."""


class Part(msgspec.Struct, frozen=True):
    """The summed times of all sites of the same source operations, the same scope or the same executable."""

    name: str
    sites: tuple[int, ...]
    """The numbers of the sites, ascending.

    If sites of a program cannot be distinguished in the profile, the numbers of all of them are included."""
    executions: float
    """The number of executions in one call, summed over the sites of this part."""
    blocks_ns: tuple[float, ...]
    """The total time of the part's sites in one call: one number for each block (profiled process)."""
    own_ns: int
    """The part's share of the time in which dispatches run, `Split.dispatches_ns`.

    While several dispatches run, the time is divided among them, so that all shares add up to exactly `dispatches_ns`.
    """
    share: float
    """`own_ns` as a fraction of the wall time of the call."""

    @property
    def summary(self) -> Summary:
        """The median of `blocks_ns`, and its confidence interval."""
        return summary(self.blocks_ns)


def rolled_up(program: Program, times: ProgramTimes, by: By, depth: int = 1) -> tuple[Part, ...]:
    """Add up the times of sites that have the same name; return the sums, the longest time first.

    `by` chooses what a site is named after: source operations (`op`), scopes (`scope`), or the executable
    (`executable`). A scope is the first `depth` components of an operation's name. With depth 2, `blocks.0.attn/linear`
    belongs to `blocks.0`."""
    name_of = _naming(program, by, depth)
    sites = {site.number: site for site in program.sites}
    parts: dict[str, list[SiteTime]] = defaultdict(list)
    for time in times.sites:
        parts[" | ".join(dict.fromkeys(name_of(sites[number]) for number in time.sites))].append(time)
    return tuple(sorted((_part(name, each) for name, each in parts.items()), key=lambda part: -part.own_ns))


def _part(name: str, times: Sequence[SiteTime]) -> Part:
    return Part(
        name,
        tuple(sorted(number for time in times for number in time.sites)),
        sum(time.executions for time in times),
        tuple(sum(block) for block in zip(*(time.blocks_ns for time in times), strict=True)),
        sum(time.own_ns for time in times),
        sum(time.share for time in times),
    )


def _naming(program: Program, by: By, depth: int) -> Callable[[Site], str]:
    if by == "executable":
        return lambda site: site.executable
    operations = {operation.number: operation for operation in program.operations}
    name = operation_name if by == "op" else lambda operation: scope_of(operation.name, depth)
    return lambda site: _joined(name(each) for each in _named_after(site, operations)) or NO_SOURCE


def _joined(names: Iterable[str]) -> str:
    return " + ".join(dict.fromkeys(names))


def _named_after(site: Site, operations: Mapping[int, SourceOperation]) -> list[SourceOperation]:
    """Return the source operations that give a site its name, in program order.

    Operations of the kinds in `_SETUP`, such as `linalg.fill`, are left out if the site also computes other operations.
    """
    found = [operations[number] for number in sorted({origin.operation for origin in site.origins})]
    return [each for each in found if each.kind not in _SETUP] or found


def operation_name(operation: SourceOperation) -> str:
    """Return the name of a source operation; if it has none, return its kind and its place in the source.

    If the place is unknown too, return the kind and the operation's number, as `KIND #NUMBER`."""
    if operation.name is not None:
        return operation.name
    return f"{operation.kind} {operation.place or f'#{operation.number}'}"


def scope_of(name: str | None, depth: int) -> str:
    """Return the scope of a source operation: the first `depth` components of the operation's name.

    For depth 2, `blocks.0.attn/linear` gives `blocks.0`. If the name has fewer components, the result is the complete
    name."""
    if name is None:
        return UNNAMED
    components = list(re.finditer(r"[^./]+", name))
    return name[: components[depth - 1].end()] if 0 < depth <= len(components) else name
