"""Dump the module of a case after each compiler phase, and link the dumps in the folder `build/CASE/`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dispatchflow.cases.case import Case
from dispatchflow.engine import phases as made
from dispatchflow.engine import recompile
from dispatchflow.engine.recompile import Source
from dispatchflow.errors import SpecError, StoreError
from dispatchflow.iree import normal_form, phases
from dispatchflow.iree.pass_times import PassTime
from dispatchflow.iree.phases import Phase
from dispatchflow.keys import Digest
from dispatchflow.project import case_folder
from dispatchflow.project.workspace import Workspace
from dispatchflow.store.entries import Record
from dispatchflow.store.store import DamagedObject

_log = logging.getLogger(__name__)
_ATTEMPTS = 3


@dataclass(frozen=True)
class CasePhases:
    """Shows a case's module after each compiler phase.

    For this, the toolchain of `workspace` compiles the case again."""

    workspace: Workspace
    case: Case
    folder: str = phases.FOLDER
    """The name of a folder inside the case's folder. It has links to the dumped modules."""

    def __post_init__(self) -> None:
        if self.case.library is not None:
            facts = {"case": self.case.name, "provider": self.case.provider}
            raise SpecError("a library's case has no phases: IREE does not compile it", facts)

    @cached_property
    def source(self) -> Source:
        return recompile.source_of(self.workspace.executor, self.case)

    @cached_property
    def dumped(self) -> Record:
        """The record of the compile that dumps the module after every phase."""
        return self._kept(made.dump)

    def passes(self) -> Record:
        return self._kept(made.passes)

    def program_text(self, kind: str) -> Record:
        return self._kept(lambda executor, case, source: made.program_text(executor, case, source, kind))

    def dispatches(self) -> dict[str, tuple[str, int]]:
        """Return a dict from each function in the dispatches' modules to its place (path, line).

        The modules are dumped before code generation. If the compile fails earlier, the result is empty. Paths are
        relative to the directory of dodo.py."""
        places = dict[str, tuple[str, int]]()
        for name, digest in self._kept(made.dispatches).outputs.items():
            text = self.workspace.store.path(digest).read_text(encoding="utf-8", errors="replace")
            places |= {function: (self.file(name), line) for function, line in phases.functions(text).items()}
        return places

    def times(self) -> list[PassTime]:
        return made.times(self.workspace.executor, self.case, self.source)

    @property
    def phases(self) -> dict[Phase, Digest]:
        """A dict from each compiler phase to the digest of the module's text after this phase."""
        return {phase: self.dumped.outputs[file] for phase, file in phases.found(self.dumped.outputs).items()}

    def sizes(self) -> dict[Phase, int]:
        """Return a dict from each compiler phase to the size, in bytes, of the module's text after this phase."""
        store = self.workspace.store
        return {phase: store.path(digest).stat().st_size for phase, digest in self.phases.items()}

    def lines(self, phase: Phase) -> list[str]:
        """Return the lines of the module after a phase, in normal form: equal modules have equal lines.

        Locations are left out, and values and aliases get new names (see `iree/normal_form.py`)."""
        text = self.workspace.store.path(self.phases[phase]).read_text(encoding="utf-8", errors="replace")
        return normal_form.lines(text)

    def file(self, name: str) -> str:
        """Return the path of the link `name`, relative to the directory of dodo.py.

        The link points to a file that the compiler dumped, such as the module after a phase."""
        return os.path.relpath(self._folder / name, self.workspace.root)

    @property
    def _folder(self) -> Path:
        return self.workspace.view_path / self.case.name / self.folder

    def _kept(self, make: Callable[..., Record]) -> Record:
        """Call `make` and return its record.

        `make` compiles the case and records the outputs. The outputs are then linked in the case's folder. If an output
        is damaged or missing in the store, `make` is called again."""
        store = self.workspace.store
        for _ in range(_ATTEMPTS):
            record = make(self.workspace.executor, self.case, self.source)
            try:
                for digest in record.outputs.values():
                    store.checked(digest)
            except DamagedObject as damaged:
                _log.warning("object %s of %s was damaged or missing; restoring it", damaged, self.case.name)
                continue
            self._show(record.outputs)
            return record
        raise StoreError("objects are damaged each time they are restored", {"store": store.root}, "Check the disk.")

    def _show(self, outputs: Mapping[str, Digest]) -> None:
        folder, shown = self._folder, {name: digest for name, digest in outputs.items() if name != "log"}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            place = folder.resolve()  # a link in the path would make the relative links wrong
            if phases.found(shown):
                for name in phases.found(path.name for path in place.iterdir() if path.is_symlink()).values():
                    if name not in shown:
                        (place / name).unlink(missing_ok=True)
            for name, digest in shown.items():
                case_folder.link(place / name, self.workspace.store.path(digest))
        except OSError as error:
            _log.warning("%s cannot be written (%s); the store has everything", folder, error.strerror)
