"""Build `Program` objects without a compiler, and profiles of their execution without a runtime.

Programs and profiles are built from lists of exports. An export is a function that a program launches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dispatchflow.iree.profile_events import Launch, Profile, QueueOperation
from dispatchflow.models.site import Program, Site


def program(*buffers: Sequence[str], at_load: Sequence[str] = ()) -> Program:
    """Return a program whose command buffers launch the given exports.

    Each of `buffers` lists the exports of one command buffer. Each launch is a site, numbered from 1 across all
    buffers. Initializers launch the exports in `at_load`. The sites of these launches have the last numbers."""
    sites: list[Site] = []
    for buffer, (exports, early) in enumerate([*((each, False) for each in buffers), (at_load, True)]):
        for command, export in enumerate(exports):
            sites.append(Site(len(sites) + 1, "main", early, f"exe_{export}", export, buffer, command))
    return Program((), tuple(sites))


class Recorder:
    """Collects the events that a runtime would record if command buffers ran one after another.

    Each launch takes 10 ns. In a buffer, each launch begins 1 ns after the previous one has ended."""

    def __init__(self) -> None:
        self.now = 1000
        self.launches: list[Launch] = []
        self.operations: list[QueueOperation] = []

    def execute(self, number: int, exports: Iterable[str], *, commands: bool = True) -> None:
        """Record one submission of the command buffer `number`, which launches `exports` in this order.

        If `commands` is false, the recorded launches do not contain the number of their command in the buffer."""
        submission = len(self.operations) + 1
        submitted, start = self.now, self.now + 3
        self.now = start
        for place, export in enumerate(exports):
            begin = self.now + 1
            self.now = begin + 10
            command = 2 * place if commands else None
            self.launches.append(Launch(submission, number, command, export, (4, 1, 1), begin, self.now, 20))
        self.now += 2
        self.operations.append(QueueOperation("execute", submission, submitted, submitted, start, self.now))
        self.now += 5

    def profile(self, dropped: int = 0) -> Profile:
        return Profile(tuple(self.launches), tuple(self.operations), dropped)
