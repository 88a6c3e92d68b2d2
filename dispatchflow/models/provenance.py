"""Find out which operations of the user's module each site of the compiled program computes.

A site is a place of the compiled program that launches a dispatch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from dispatchflow.models import kinds, work
from dispatchflow.models.def_use import DefUse, Point, called
from dispatchflow.models.site import Evidence, Origin, Program, Site, SourceOperation
from dispatchflow.models.tagged import Dispatch, Dispatches, Launch, Launches, Source


def program(source: Source, formed: Dispatches, host: Launches) -> Program:
    """Return the sites of a compiled program, with the source operations that each site computes.

    Args:
        source: the module that is given to the compiler.
        formed: the module after the compiler has formed all dispatches.
        host: the places of the host program that launch dispatches.

    Raises:
        ValueError: one launch has the tags of several dispatches, or several launches have the same tag."""
    graph = DefUse(source.nodes)
    located = _located(graph, formed.dispatches)
    by_flow = _by_data_flow(graph, formed, located)
    count = Counter(tag for launch in host.launches for tag in launch.sites)
    if twice := [tag for tag, launches in count.items() if launches > 1]:
        export = next(launch.export for launch in host.launches if twice[0] in launch.sites)
        raise ValueError(f"{count[twice[0]]} launches of {export} have the tag of one dispatch")
    sites = []
    for number, launch in enumerate(host.launches, 1):
        if len(launch.sites) > 1:
            raise ValueError(f"a launch of {launch.export} has the tags of {len(launch.sites)} dispatches")
        if launch.sites:
            tag = launch.sites[0]
            known = _sorted("location", located[tag]), _sorted("data flow", by_flow.get(tag, set()))
            sites.append(_site(number, launch, formed.dispatches[tag], (*known[0], *known[1])))
        else:
            sites.append(_site(number, launch, None, _sorted("launch", _users(graph, launch.origins))))
    return Program(_operations(graph, source), tuple(sites), source.unlabelled, _calls(host))


def _calls(host: Launches) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for caller, callees in host.calls.items():
        name = called(caller)
        found.setdefault(name, {}).update((called(each), None) for each in callees if called(each) != name)
    return {name: tuple(callees) for name, callees in found.items() if callees}


def _sorted(evidence: Evidence, operations: set[int]) -> tuple[Origin, ...]:
    return tuple(Origin(each, evidence) for each in sorted(operations))


def _site(number: int, launch: Launch, dispatch: Dispatch | None, origins: tuple[Origin, ...]) -> Site:
    return Site(
        number,
        called(launch.function),
        launch.at_load,
        launch.executable,
        launch.export,
        launch.command_buffer,
        launch.command,
        origins,
        work.flops(dispatch) if dispatch else None,
        work.traffic_bytes(dispatch) if dispatch else None,
        launch.sites[0] if launch.sites else None,
        work.elements(dispatch) if dispatch else (),
    )


def _operations(graph: DefUse, source: Source) -> tuple[SourceOperation, ...]:
    """Return the user's operations.

    Constants, functions and loops are left out. Operations in the body of a linalg operation are left out too."""
    variable = graph.depends_on_arguments()
    return tuple(
        SourceOperation(number, node.kind, node.name, node.place, kinds.computes(node), number not in variable)
        for number, node in enumerate(source.nodes)
        if graph.owner[number] == number and _is_users(node.kind)
    )


def _located(graph: DefUse, dispatches: Sequence[Dispatch]) -> list[set[int]]:
    """Collect the numbers N of the user's operations from the locations `df.op.N` in each dispatch.

    Locations that may be wrong are left out."""
    computed = [_origins(graph, dispatch, computing=True) for dispatch in dispatches]
    somewhere = set().union(*computed)
    found = []
    for dispatch, own in zip(dispatches, computed, strict=True):
        moved = _origins(graph, dispatch, computing=False)
        # Passes may give an operation that only moves data the location of a nearby operation. Its tag N counts if
        # source operation N only moves data too, and no computing operation of any dispatch has the tag N.
        found.append(own | {each for each in moved if each not in somewhere and kinds.moves(graph.nodes[each].kind)})
    return found


def _origins(graph: DefUse, dispatch: Dispatch, computing: bool) -> set[int]:
    tags: list[int] = []
    for operation in dispatch.operations:
        if not kinds.is_around(operation) and kinds.is_arithmetic(operation) == computing:
            tags += operation.origins
            tags += [tag for scalar in operation.scalars for tag in scalar.origins]
    return _users(graph, tags)


def _users(graph: DefUse, tags: Iterable[int]) -> set[int]:
    """Return the numbers in `tags`, without those of constants, functions and loops.

    If operation 7 is inside linalg operation 5, the number 7 becomes 5."""
    owners = {graph.owner[tag] for tag in tags}
    return {each for each in owners if _is_users(graph.nodes[each].kind)}


def _is_users(kind: str) -> bool:
    return not (kinds.is_frame(kind) or kinds.is_constant(kind))


def _by_data_flow(graph: DefUse, formed: Dispatches, located: Sequence[set[int]]) -> dict[int, set[int]]:
    """Infer what dispatches compute if their locations do not show it.

    `located[i]` has the numbers of the operations that the locations in dispatch i show. If this set is empty, the
    returned dict maps i to the numbers of the operations that dispatch i may compute. For example, a dispatch between
    the dispatches of operations 3 and 5 may compute operation 4."""
    flow = DefUse(formed.nodes)
    tag_of = {dispatch.node: tag for tag, dispatch in enumerate(formed.dispatches)}
    anywhere = set().union(*located)

    def is_passed(node: int) -> bool:
        return node not in tag_of or not located[tag_of[node]]

    def is_vanished(node: int) -> bool:
        return node not in anywhere

    def computed_by(points: Iterable[Point]) -> set[Point]:
        ends: set[Point] = set()
        for point in points:
            if isinstance(point, str):
                ends.add(point)
            elif point in tag_of:
                ends |= located[tag_of[point]]
        return ends

    found = {}
    for tag, dispatch in enumerate(formed.dispatches):
        if located[tag]:
            continue
        # The ends are operations of the nearest located dispatches, or arguments and results of functions.
        begin = computed_by(flow.sources(dispatch.node, is_passed))
        end = computed_by(flow.users(dispatch.node, is_passed))
        variable = begin - {"constant"} or begin
        between = graph.between(variable, end, is_vanished)
        candidates = {each for each in between if _is_users(graph.nodes[each].kind) and graph.nodes[each].tensor}
        # A dispatch without a tagged computing operation usually only moves data.
        candidates = {each for each in candidates if kinds.moves(graph.nodes[each].kind)} or candidates
        # For a copy into a padded tensor there are no candidates: it has the location of the convolution that reads the
        # tensor. The locations of loads and stores are used too, because the dispatch may contain nothing else.
        anything = _users(graph, (tag for each in dispatch.operations for tag in each.origins))
        found[tag] = candidates or anything & (begin | end)
    return found
