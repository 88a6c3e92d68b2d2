"""Print the progress of a run: with bars on a terminal, otherwise with one line for each stage.

Failures are printed at once."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dispatchflow import units
from dispatchflow.cli import output
from dispatchflow.stages import NAMED

if TYPE_CHECKING:
    from dispatchflow.measurement.trials import Trial

_SILENCE_S = 10.0


class Progress:
    """Counts and prints the finished stages of a run; its methods may be called from several threads."""

    def __init__(self, totals: dict[str, int]) -> None:
        self._totals, self._lock = totals, threading.RLock()
        self._done = dict.fromkeys(NAMED, 0)
        self.made = dict.fromkeys(NAMED, 0)
        self.failures: list[tuple[str, str, str]] = []
        self._spoke_at = time.monotonic()
        self._blocks: dict[str, int] = {}
        """The number of finished blocks of each case, by the key of its measurement."""
        self._done_blocks = self._most_blocks = 0
        self._live: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Progress:
        if sys.stdout.isatty() and sum(self._totals.values()):
            self._live, self._tasks = _bars(self._totals)
            self._live.start()
        return self

    def __exit__(self, *unused: object) -> None:
        if self._live is not None:
            with suppress(OSError):  # the terminal may be closed
                self._live.stop()

    def begin(self, stage: str, name: str) -> None:
        if self._live is not None:
            self._live.update(self._tasks[stage], name=name)

    def end(self, stage: str, name: str, cost_s: float, failure: str | None, known: bool = False) -> None:
        """Count and print a finished stage. `known` is true if the stage failed and the failure is expected."""
        with self._lock:
            self.made[stage] += failure is None
            if failure is not None:
                self.failures.append((stage, name, failure))
            self._advance(stage)
            number = f"[{self._done[stage]}/{self._totals[stage]}]"
            if failure is not None:
                self._print(f"{number} {stage} {name} {'known failure' if known else 'FAILED'}: {failure}")
            elif self._live is None and stage != "emit":
                self._print(f"{number} {stage} {name}  {units.seconds(cost_s)}")

    def reused(self, stage: str, name: str) -> None:
        """Count a stage that did not run, because its result was in the store."""
        with self._lock:
            self._advance(stage)

    def measuring(self, count: int, blocks: int) -> None:
        """Begin to show the progress of measuring `count` cases.

        Each case is measured in at most `blocks` blocks (benchmark processes)."""
        self._most_blocks = count * blocks
        if self._live is not None and count:
            self._live.update(self._tasks["profile"], total=self._most_blocks)
        elif count:
            self._print(
                f"measuring {units.count(count, 'case')} in rounds, one block of each case in a round; "
                "other runs of dispatchflow wait meanwhile"
            )
            self._spoke_at = time.monotonic()

    def more(self, stage: str, count: int) -> None:
        """Add `count` to the number of cases that a stage has to process."""
        with self._lock:
            self._totals[stage] += count
            if self._live is not None and count:
                if stage in self._tasks:
                    self._live.remove_task(self._tasks[stage])
                self._tasks[stage] = self._live.add_task(stage, total=count, name="")

    def say(self, line: str, seldom: bool = False) -> None:
        """Print a line. With `seldom`, print it only if nothing was printed in the last 10 s."""
        with self._lock:
            if not seldom or time.monotonic() - self._spoke_at > _SILENCE_S:
                self._spoke_at = time.monotonic()
                self._print(line)

    def block(self, trial: Trial, undecided: int) -> None:
        """Report that a block (one benchmark process) of the measurement `trial` has ended.

        `undecided` is the number of measurements that need more blocks."""
        with self._lock:
            number, most = len(trial.blocks_ns), trial.protocol.blocks
            ahead = 0
            if trial.what == "case":  # only blocks of cases are counted; a finished case counts as all its blocks
                done = number if trial.outcome is None else most
                ahead = done - self._blocks.get(trial.key, 0)
                self._blocks[trial.key] = done
                self._done_blocks += ahead
            if self._live is not None:
                self._live.update(self._tasks["profile"], advance=ahead, name=f"block {number} of {trial.label}")
            elif undecided and time.monotonic() - self._spoke_at > _SILENCE_S:
                self._spoke_at = time.monotonic()
                share = f"; {self._done_blocks} of {self._most_blocks} blocks done" if trial.what == "case" else ""
                self._print(f"{units.count(undecided, trial.what)} still being measured{share}")

    def _advance(self, stage: str) -> None:
        self._done[stage] += 1
        if self._live is not None and stage != "profile":  # the bar of `profile` counts blocks
            self._live.update(self._tasks[stage], advance=1)

    def _print(self, line: str) -> None:
        if self._live is not None:
            with output.writing():
                self._live.console.print(line, markup=False, highlight=False)
        else:
            output.say(line)


def _bars(totals: dict[str, int]) -> tuple[Any, dict[str, Any]]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars  # takes 100 ms to import: only on a terminal

    live = Bars(
        TextColumn("{task.description:8}"),
        BarColumn(24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[name]}", table_column=None),
        transient=True,
    )
    return live, {stage: live.add_task(stage, total=count, name="") for stage, count in totals.items() if count}
