"""doit's thread runner, with one addition: exclusive tasks run alone, once nothing else can make progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from doit.runner import JobHold, JobTaskPickle, MThreadRunner

from dispatchflow.cases.case import Case


class ExclusiveRunner(MThreadRunner):  # type: ignore[misc]
    """Compiles and verifications of all chains come first, in parallel; then the measurements, one at a time.

    A user's own tasks run alone too: doit captures a Python task's output by swapping sys.stdout for all threads.
    `prepare` is called before each of them with the cases whose measurements wait, `publish` before one of the user's:
    it may read the rows.
    """

    prepare: Callable[[list[Case]], None]
    publish: Callable[[], object]
    stopped: Callable[[], object]
    """Whether nothing more is to be begun."""

    def run_tasks(self, task_dispatcher: Any) -> None:
        self._in_flight, self._exhausted = 0, False
        self._deferred: list[Any] = []
        super().run_tasks(task_dispatcher)

    def get_next_job(self, completed: Any) -> Any:
        """As doit's, but a selected task that is exclusive waits in `_deferred`."""
        if completed is not None:
            self._in_flight -= 1
        if self._stop_running or self.stopped():
            return None
        node = completed
        while not self._exhausted:
            try:
                node = self.task_dispatcher.generator.send(node)
            except StopIteration:
                self._exhausted = True
                break
            if node == "hold on":
                break
            if self.select_task(node, self.tasks):
                task = node.task
                if task.actions and (not task.meta or "exclusive" in task.meta):
                    self._deferred.append(task)
                    node = None
                    continue
                return self._issued(task)
        if self._deferred:
            return self._exclusive() if self._in_flight == 0 else self._hold()
        return None if self._exhausted else self._hold()

    def _exclusive(self) -> Any:
        measurements = [task for task in self._deferred if task.meta]
        self.prepare([task.meta["exclusive"] for task in measurements])
        if measurements:
            self._deferred.remove(measurements[0])
            return self._issued(measurements[0])
        self.publish()
        return self._issued(self._deferred.pop(0))

    def _issued(self, task: Any) -> Any:
        self._in_flight += 1
        return JobTaskPickle(task)

    def _hold(self) -> Any:
        self.free_proc += 1
        return JobHold()
