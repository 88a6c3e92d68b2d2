"""Live progress: a bar on a terminal, a line for each step otherwise; failures as they come."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dispatchflow import units
from dispatchflow.cli import output
from dispatchflow.stages import STAGES

if TYPE_CHECKING:
    from dispatchflow.measurement.trials import Trial

_SILENCE_S = 10.0


class Progress:
    """Counts what runs. Called from several threads."""

    def __init__(self, totals: dict[str, int]) -> None:
        self._totals, self._lock = totals, threading.RLock()
        self._done = dict.fromkeys(STAGES, 0)
        self.made = dict.fromkeys(STAGES, 0)
        self.failures: list[tuple[str, str, str]] = []
        self._spoke_at = time.monotonic()
        self._live: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Progress:
        if sys.stdout.isatty() and sum(self._totals.values()):
            self._live, self._tasks = _bars(self._totals)
            self._live.start()
        return self

    def __exit__(self, *unused: object) -> None:
        if self._live is not None:
            with suppress(OSError):  # a terminal that was closed
                self._live.stop()

    def begin(self, stage: str, name: str) -> None:
        if self._live is not None:
            self._live.update(self._tasks[stage], name=name)

    def end(self, stage: str, name: str, cost_s: float, failure: str | None, known: bool = False) -> None:
        """`known`: the failure is, and needs nobody's attention."""
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
        """A stage that turned out to be made already: same code, early cutoff."""
        with self._lock:
            self._advance(stage)

    def measuring(self, count: int, blocks: int) -> None:
        """So many cases are to be measured, each in so many blocks."""
        if self._live is not None and count:
            self._live.update(self._tasks["profile"], total=count * blocks)
        elif count:
            self._print(f"measuring {units.count(count, 'case')} in rounds, one block each, nothing else running")
            self._spoke_at = time.monotonic()

    def more(self, stage: str, count: int) -> None:
        """So many cases of this stage are to be made besides."""
        with self._lock:
            self._totals[stage] += count
            if self._live is not None and count:
                if stage in self._tasks:
                    self._live.remove_task(self._tasks[stage])
                self._tasks[stage] = self._live.add_task(stage, total=count, name="")

    def say(self, line: str, seldom: bool = False) -> None:
        """`seldom`: only when nothing was said for long."""
        with self._lock:
            if not seldom or time.monotonic() - self._spoke_at > _SILENCE_S:
                self._spoke_at = time.monotonic()
                self._print(line)

    def block(self, trial: Trial, undecided: int) -> None:
        """One block of this trial has ended; so many trials go on."""
        with self._lock:
            number, most = len(trial.blocks_ns), trial.protocol.blocks
            if self._live is not None:
                # The bar's total is of the cases.
                ahead = 0 if trial.what != "case" else 1 if trial.outcome is None else 1 + most - number
                self._live.update(self._tasks["profile"], advance=ahead, name=f"block {number} of {trial.label}")
            elif time.monotonic() - self._spoke_at > _SILENCE_S:
                self._spoke_at = time.monotonic()
                self._print(f"block {number} of {most}; {units.count(undecided, trial.what)} undecided")

    def _advance(self, stage: str) -> None:
        self._done[stage] += 1
        if self._live is not None and stage != "profile":  # its bar counts blocks
            self._live.update(self._tasks[stage], advance=1)

    def _print(self, line: str) -> None:
        if self._live is not None:
            with output.writing():
                self._live.console.print(line, markup=False, highlight=False)
        else:
            output.say(line)


def _bars(totals: dict[str, int]) -> tuple[Any, dict[str, Any]]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars  # 100 ms to import: only where somebody looks

    live = Bars(
        TextColumn("{task.description:8}"),
        BarColumn(24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[name]}", table_column=None),
        transient=True,
    )
    return live, {stage: live.add_task(stage, total=count, name="") for stage, count in totals.items() if count}
