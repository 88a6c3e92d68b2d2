"""The work that doit's tasks do: execute a stage of a case, measure cases, write rows of results."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from dispatchflow import units
from dispatchflow.cases.case import Case
from dispatchflow.cli.progress import Progress
from dispatchflow.engine.state import CaseState
from dispatchflow.errors import DispatchflowError
from dispatchflow.iree.targets import Device, Target
from dispatchflow.measurement import trials
from dispatchflow.measurement.controls import Controls
from dispatchflow.measurement.session import Session
from dispatchflow.measurement.site_trials import SiteTrials
from dispatchflow.measurement.trials import Trial
from dispatchflow.project import case_folder, case_sites
from dispatchflow.project.workspace import Workspace
from dispatchflow.results import publish, site_rows
from dispatchflow.results.rows import Row
from dispatchflow.results.site_rows import SITE_ROWS, SiteRow
from dispatchflow.stages import MEASURED, SITES
from dispatchflow.store.entries import Record

_log = logging.getLogger(__name__)

_WITH_SITES = " sites "
"""The separator in `DIGEST sites KEY`, a text that identifies the content of a folder `build/CASE/`.

DIGEST is the digest of the case's row, and KEY is the key of the stage `sites`."""


class StageTasks:
    """Measurements run alone; the other work may run in several threads."""

    def __init__(self, workspace: Workspace, progress: Progress) -> None:
        self.workspace, self.progress = workspace, progress
        self._prepared: dict[Case, None] = {}
        self.trials: dict[Case, Trial] = {}
        """The measurements of this invocation."""
        self.touched: set[Case] = set()
        """The cases for which the method `run` was called."""
        self.made: set[Case] = set()
        """The cases of which this invocation executed a stage. The other cases reused stored results."""
        self.stopped: Exception | None = None
        self.broken: set[str] = set()
        """The names of the cases for which the method `run` raised an unexpected exception."""
        self.refused: DispatchflowError | None = None
        """The error if `publish` could not write rows. It is raised after everything else is reported."""
        self._blind = False

    def done(self, stage: str, case: Case) -> bool:
        """Return whether a stage is up to date."""
        step = self.workspace.resolver.chain(case)[stage]
        up_to_date = not step.pending
        if up_to_date:
            self.progress.reused(stage, case.name)
        return up_to_date

    def run(self, stage: str, case: Case) -> bool:
        """Execute one stage; return False if it failed, so that doit does not run the stages after it.

        An error that affects every case, such as a full disk, is kept in `stopped` and ends the run."""
        try:
            return self._run(stage, case)
        except (DispatchflowError, OSError) as error:
            self.stopped = self.stopped or error
            return False
        except Exception:  # doit prints the traceback
            self.broken.add(case.name)
            raise

    def _run(self, stage: str, case: Case) -> bool:
        self.touched.add(case)
        self.progress.begin(stage, case.name)
        executor = self.workspace.executor
        if stage == "profile":
            return self._profile(case) or self._goes_on(case)
        if stage == SITES:
            return self._sites(case)
        if stage == "verify":
            record = executor.verify(case, self.workspace.resolver.chain(case).device)
        else:
            record = executor.emit(case) if stage == "emit" else executor.compile(case)
        if record is not None and record.run != self.workspace.run:  # another run made the record
            self.progress.reused(stage, case.name)
        else:
            self.made.add(case)
            failure = self._failure(case, record)
            self.progress.end(
                stage, case.name, record.cost_s if record else 0.0, failure, self._is_known(case, failure)
            )
        if stage == "verify" and (self.workspace.settings.verify == "warn" or self._goes_on(case)):
            return True
        return bool(record and record.ok)

    def _goes_on(self, case: Case) -> bool:
        return case in self.workspace.resolver.asked_for_sites and self.stopped is None

    def _is_known(self, case: Case, failure: str | None) -> bool:
        return failure is not None and self.workspace.resolver.chain(case).known is not None

    def _failure(self, case: Case, record: Record | None) -> str | None:
        if record is None:  # an upstream stage failed
            step = self.workspace.resolver.chain(case).failure
            return step.why if step else "it cannot be run"
        return None if record.ok else record.reason or "failed"

    def prepare(self, cases: Iterable[Case]) -> None:
        """Add to the session the measurements that `cases` need.

        A session has all measurements of this run. It measures one group of cases after another, in rounds: each round
        runs one benchmark process (block) of every case in the group."""
        new = [case for case in cases if case not in self._prepared]
        if not new:
            return
        self._prepared.update(dict.fromkeys(new))
        self.trials |= {case: trial for case in new if (trial := self._pending_trial(case)) is not None}
        self.progress.measuring(len(self.session.undecided), self.workspace.settings.protocol.blocks)
        for target, device, kinds in self._places_with_ceilings():
            self._calibrate(target, device, kinds)

    def _calibrate(self, target: Target, device: Device, kinds: Sequence[str]) -> None:
        ceilings, anew = self.workspace.ceilings, self.workspace.settings.remeasure == "yes"
        ceilings.copy_to_store(target, device)
        if wanted := kinds if anew else ceilings.missing(target, device, kinds):
            how = f"with calibration kernels, on {device.uri} with {units.count(device.threads, 'thread')}"
            self.progress.say(
                f"measuring this machine's highest compute and memory rates {how} (for the column 'peak')"
            )
            ceilings.calibrate(target, device, self.session, wanted)

    def _places_with_ceilings(self) -> list[tuple[Target, Device, list[str]]]:
        """Return (target, device, kinds) for each group of measured cases that share ceilings.

        A ceiling is the highest compute or memory rate of a device. `kinds` has the kinds of calibration kernels
        that the group needs, such as `f32`."""
        places: dict[tuple[str, int], tuple[Target, Device, list[str]]] = {}
        ceilings = self.workspace.ceilings
        for case, trial in self.trials.items():
            if found := ceilings.kinds(case):
                place = ceilings.place(case.target, trial.device)
                places.setdefault(place, (case.target, trial.device, []))[2].extend(found)
        return list(places.values())

    @cached_property
    def session(self) -> Session:
        w = self.workspace
        pauses = w.settings.protocol.pauses
        return Session(w.bench, w.toolchain, w.run, self.progress.block, w.resolver.reuse.refusal, pauses=pauses)

    def _trial(self, case: Case) -> Trial | None:
        before = self.workspace.resolver.chain(case)["compile"]
        found = self.workspace.executor.artifacts(case, expected=False)
        chain = self.workspace.resolver.chain(case)
        if found is None:
            return None
        if before.code != found.code:
            _log.warning(
                "%s is not reproducible: its compile gave code %s before and now %s", case.name, before.code, found.code
            )
        if chain["verify"].pending:  # code is verified before it is timed
            self.run("verify", case)
            chain = self.workspace.resolver.chain(case)
        if chain["profile"].action is None or chain["verify"].pending:
            return None
        return trials.trial(self.workspace.executor, chain, found)

    def _pending_trial(self, case: Case) -> Trial | None:
        trial = self._trial(case)
        if trial is None or not self.workspace.resolver.chain(case)["profile"].pending:
            return None
        trial.anchors = self.workspace.anchors.of(case.target, self.workspace.device(case.target, case.threads))
        return self.session.add(trial)

    def _profile(self, case: Case) -> bool:
        if (trial := self.trials.get(case)) is None:
            self.progress.reused("profile", case.name)
            return True
        self.session.measure_until_decided(trial)
        if trial.adopted:
            self.workspace.resolver.measured_elsewhere.add(trial.key)
        if trial.adopted or trial.label != case.name:  # measured by another invocation, or under another name
            self.progress.reused("profile", case.name)
        else:
            self.made.add(case)
            failure = trial.reason if trial.outcome == "failed" else None
            self.progress.end("profile", case.name, trial.spent_s, trial.reason, self._is_known(case, failure))
        return trial.outcome != "failed"

    def _sites(self, case: Case) -> bool:
        record = SiteTrials(self.workspace.executor, self.workspace.bench).make(case)
        if record is None:
            return False
        failure = None if record.ok else record.reason or "failed"
        if record.run != self.workspace.run:
            self.progress.reused(SITES, case.name)
        else:
            self.made.add(case)
            self.progress.end(SITES, case.name, record.cost_s, failure)
        self._calibrate_for_sites(case)
        return record.ok

    def _calibrate_for_sites(self, case: Case) -> None:
        w, chain = self.workspace, self.workspace.resolver.chain(case)
        if (found := case_sites.load(w, chain)) is None or found.times is None:
            return
        timed = [site for site in found.program.sites if site.number not in found.times.untimed]
        kinds = w.ceilings.kinds_of_sites(timed, case.target)
        self._calibrate(case.target, chain.device, kinds)
        if (found := case_sites.load(w, chain)) is not None and found.above_ceilings:
            w.ceilings.calibrate(case.target, chain.device, self.session, kinds, spare=True)

    def check_runtime_drift(self, cases: Mapping[Case, str]) -> bool:
        """Check that this IREE runtime is as fast as the runtimes that measured the times to be reused.

        A few cases are measured to compare the speeds of two runtimes. If the speeds differ, the selected cases that
        would reuse times are measured again. Returns False if there was nothing to check."""
        resolver, looked = self.workspace.resolver, False
        while reused := [chain for case, chain in resolver.unjudged.items() if cases.get(case) in MEASURED]:
            looked = True
            moved = Controls(self.workspace.executor, self.workspace.bench, self._trial, self.progress.say).judge(
                reused
            )
            # The next measurement that a case can reuse may be of a third runtime, which the next iteration judges.
            again = [case for case in moved if resolver.chain(case)["profile"].pending]
            if moved:
                of = f"{len(again)} of {len(moved)} cases that reused measurements of another runtime"
                self.progress.say(f"{of} are measured again")
            self.progress.more("verify", sum(resolver.chain(case)["verify"].pending for case in again))
            self.progress.more("profile", len(again))
            self._prepared.clear()
            self.prepare(again)
            for case in again:
                self.run("profile", case)
        return looked

    def publish(self, cases: Mapping[Case, str], chains: Sequence[CaseState]) -> list[Row]:
        """Write rows to Parquet, and return the rows of all cases in `chains`.

        `cases` maps each case to its last selected stage. A case's row is written if this stage is `profile` or
        `sites`. The folders `build/CASE/` are updated too. If a new time is `suspect` (faster than the machine's
        highest recorded rates allow), these rates are measured again."""
        workspace = self.workspace
        rows = self._rows(chains)
        if any(row.status == "suspect" and row.chain.case in self.trials for row in rows):
            # Either the time or the ceiling is wrong. The machine may have been slow during the calibration: repeat it.
            for target, device, kinds in self._places_with_ceilings():
                workspace.ceilings.calibrate(target, device, self.session, kinds, spare=True)
            rows = self._rows(chains)
        profiled = [row for row in rows if cases[row.chain.case] in MEASURED]
        self.refused = publish.publish(workspace.store, workspace.run, workspace.settings.protocol, profiled)
        self.refused = self._publish_sites(chains) or self.refused
        records, folders = workspace.store.records, case_folder.names(workspace.view_path)
        views = {f"{row.chain.case.name} {workspace.view_name}": row for row in rows}
        shown = records.newest_identities(views)
        for name, row in views.items():
            chain, identity = row.chain, row.identity
            known = shown.get(name, "")
            if chain.sites is None:  # a view that also shows sites shows this row too
                known, *_ = known.split(_WITH_SITES)
            elif chain.sites.state == "made":
                identity += f"{_WITH_SITES}{chain.sites.key}"
            if chain.case in self.touched or known != identity or chain.case.name not in folders:
                keys = {stage: step.key for stage, step in chain.steps.items() if step.key is not None}
                records.set_latest(chain.case.name, keys, {name: identity} if self._show(chain) else {})
        return rows

    def _publish_sites(self, chains: Sequence[CaseState]) -> DispatchflowError | None:
        w, named = self.workspace, dict[str, SiteRow]()
        version, protocol, now = w.toolchain.version, w.settings.protocol, time.time()
        for chain in chains:
            if (found := case_sites.load(w, chain)) is not None:
                name = publish.name_of(chain, protocol)
                named |= site_rows.recorded(chain, found.rows, name, version, protocol.id, w.run, now)
        return publish.append(w.store, w.run, named, SITE_ROWS)

    def _rows(self, chains: Sequence[CaseState]) -> list[Row]:
        w = self.workspace
        return publish.rows_of(chains, w.toolchain, w.settings.protocol, w.run, w.plan.tags, w.ceilings, w.noisy_above)

    def _show(self, chain: CaseState) -> bool:
        """Update the folder `build/CASE/`; return False if this update or an earlier one failed."""
        workspace = self.workspace
        if self._blind:
            return False
        try:
            found = case_sites.load(workspace, chain)
            text = found.text if found else None
            case_folder.write(workspace.view_path, workspace.store, workspace.resolver, chain, text)
        except OSError as error:
            self._blind = True
            _log.warning("%s cannot be written (%s); the store has everything", workspace.view_path, error.strerror)
            shutil.rmtree(workspace.view_path / chain.case.name, ignore_errors=True)
        return not self._blind
