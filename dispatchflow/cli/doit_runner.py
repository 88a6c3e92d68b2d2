"""Run doit tasks in threads. Measurements and the user's own tasks run last, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from doit.runner import JobHold, JobTaskPickle, MThreadRunner

from dispatchflow.cases.case import Case


class ExclusiveRunner(MThreadRunner):  # type: ignore[misc]
    """The user's tasks run alone, because doit replaces sys.stdout for all threads during a Python task."""

    prepare: Callable[[list[Case]], None]
    """Called before each task that runs alone. Its argument lists the cases that wait to be measured."""
    publish: Callable[[], object]
    """Called before each of the user's own tasks, to write the rows of results that the task may read."""
    stopped: Callable[[], object]
    """Returns a true value if no further task may start."""

    def run_tasks(self, task_dispatcher: Any) -> None:
        self._in_flight, self._exhausted = 0, False
        self._deferred: list[Any] = []
        super().run_tasks(task_dispatcher)

    def get_next_job(self, completed: Any) -> Any:
        """Return the next job; None if the run was stopped or no task is left.

        The job is a `JobHold` if a running task must end before another task may start. Measurements and the user's
        tasks start when no other task runs, and no compile or other parallel task is ready."""
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
