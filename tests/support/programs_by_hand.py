"""Make programs of sites, and the events that a runtime would record of their calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dispatchflow.iree.profile_events import Launch, Profile, QueueOperation
from dispatchflow.models.site import Program, Site


def program(*buffers: Sequence[str], at_load: Sequence[str] = ()) -> Program:
    """Return a program with these command buffers, each a sequence of exports.

    Sites are numbered from 1 across buffers. Initializers launch the exports in `at_load`, in a buffer of their own."""
    sites: list[Site] = []
    for buffer, (exports, early) in enumerate([*((each, False) for each in buffers), (at_load, True)]):
        for command, export in enumerate(exports):
            sites.append(Site(len(sites) + 1, "main", early, f"exe_{export}", export, buffer, command))
    return Program((), tuple(sites))


class Recorder:
    """The events of submissions, one after another. Each launch takes 10 ns, after a gap of 1 ns."""

    def __init__(self) -> None:
        self.now = 1000
        self.launches: list[Launch] = []
        self.operations: list[QueueOperation] = []

    def execute(self, number: int, exports: Iterable[str], *, commands: bool = True) -> None:
        """Record one submission of the command buffer with this number."""
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
