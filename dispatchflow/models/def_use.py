"""The def-use graph of a module: what a value depends on, and what depends on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dispatchflow.mlir.functions import ASYNC
from dispatchflow.models import kinds
from dispatchflow.models.tagged import Node

Point = int | str
"""A point of the def-use graph: the number of a node, or the name of a point that is no operation.

For example, `argument main 0` is argument 0 of the function `main`, and `result main` stands for all results of `main`.
Operations without operands depend on the point `constant`."""


class DefUse:
    """The edges between the points of a def-use graph, and searches along the edges."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.owner = [self._owner(number) for number in range(len(nodes))]
        """The number of the outermost operation around each operation; its own number if there is none.

        Modules, functions, loops and the like (`kinds.is_frame`) do not count as outer operations. For example, an
        operation in the body of a linalg operation has the number of the linalg operation."""
        self.before: dict[Point, dict[Point, None]] = {}
        self.after: dict[Point, dict[Point, None]] = {}
        for number in range(len(nodes)):
            self._add(number)

    def _owner(self, number: int) -> int:
        outermost, parent = number, self.nodes[number].parent
        while parent is not None:
            if not kinds.is_frame(self.nodes[parent].kind):
                outermost = parent
            parent = self.nodes[parent].parent
        return outermost

    def _add(self, number: int) -> None:
        node, own = self.nodes[number], self.owner[number]
        made: list[Point] = [self.owner[use] for use in node.uses]
        for holder, i in node.arguments:
            around = self.nodes[holder]
            made.append(self.owner[holder] if around.symbol is None else f"argument {called(around.symbol)} {i}")
        if not made and node.results:
            made = ["constant"]
        for point in made:
            if point != own:
                self._connect(point, own)
        if node.parent is not None and not node.results and own == number:
            parent = self.nodes[node.parent]  # a terminator's operands are its parent's results
            self._connect(
                number, f"result {called(parent.symbol)}" if parent.symbol is not None else self.owner[node.parent]
            )

    def _connect(self, made: Point, used: Point) -> None:
        self.before.setdefault(used, {})[made] = None
        self.after.setdefault(made, {})[used] = None

    def sources(self, point: Point, is_passed: Callable[[int], bool]) -> set[Point]:
        """Return the points on which `point` depends, directly or through operations that `is_passed` accepts."""
        return self._reached(self.before, [point], is_passed)

    def users(self, point: Point, is_passed: Callable[[int], bool]) -> set[Point]:
        """Return all points that depend on `point`, directly or through operations that `is_passed` accepts."""
        return self._reached(self.after, [point], is_passed)

    def between(self, begin: Iterable[Point], end: Iterable[Point], is_passed: Callable[[int], bool]) -> set[int]:
        """Return the numbers of the operations on paths from `begin` to `end`, without the paths' ends.

        The paths lead from values to their uses. A path counts only if `is_passed` returns True for each operation
        between its ends."""
        forward = self._reached(self.after, begin, is_passed)
        backward = self._reached(self.before, end, is_passed)
        return {point for point in forward & backward if isinstance(point, int) and is_passed(point)}

    @staticmethod
    def _reached(
        edges: dict[Point, dict[Point, None]], begin: Iterable[Point], is_passed: Callable[[int], bool]
    ) -> set[Point]:
        found: set[Point] = set()
        queue = list(begin)
        while queue:
            for point in edges.get(queue.pop(), ()):
                if point not in found:
                    found.add(point)
                    if isinstance(point, int) and is_passed(point):
                        queue.append(point)
        return found

    def depends_on_arguments(self) -> set[int]:
        """Return the numbers of the nodes that depend, directly or indirectly, on an argument of a function."""
        given = [point for point in self.after if isinstance(point, str) and point.startswith("argument ")]
        return {point for point in self._reached(self.after, given, lambda node: True) if isinstance(point, int)}


def called(function: str) -> str:
    """Return the function's name without the suffix `$async`."""
    return function.removesuffix(ASYNC)
