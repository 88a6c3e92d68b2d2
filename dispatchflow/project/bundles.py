"""Write a bundle: a folder with a spec, a script, and the modules and operands of a case's sites.

A site is a place of a program that launches a dispatch. Each module has the dispatch of a site."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dispatchflow.cases.case import Case
from dispatchflow.cases.module import Module, is_scalar
from dispatchflow.engine import capture, provenance, site_states
from dispatchflow.engine import extraction as extracting
from dispatchflow.errors import SpecError, StoreError, ToolError
from dispatchflow.iree import command_lines
from dispatchflow.iree import flags as extra
from dispatchflow.keys import Digest
from dispatchflow.models import bundle, extraction, site_choice
from dispatchflow.models.bundle import Bundle
from dispatchflow.models.extraction import Extracted, Value
from dispatchflow.models.site import Program, Site
from dispatchflow.project.new_folder import new_folder
from dispatchflow.project.workspace import Workspace
from dispatchflow.store.entries import Record
from dispatchflow.store.store import DamagedObject

_ATTEMPTS = 3
_SHOWN = 5
_REPLAY = "iree-run-replay"
_OURS = re.compile(rf"s\d{{2,}}\..*|{re.escape(bundle.SPEC)}|{re.escape(bundle.REPRO)}|{bundle.README}")
"""A pattern for the names of a bundle's files, including the files that the bundle's script writes."""


@dataclass(frozen=True, slots=True)
class Captured:
    """The captured operands and results of sites."""

    values: Mapping[int, Mapping[str, Value]]
    """The captured operands and results of each site: `values[3]["in0"]` is the first operand of site 3.

    Results are named `out0`, `out1` and so on. A `Value` has the type; for a scalar, it also has the content."""
    objects: Mapping[tuple[int, str], Digest]
    """A dict from (number of the site, name of the value) to the digest of the value's bytes."""
    undefined: Mapping[tuple[int, str], Digest] = field(default_factory=dict)
    """A dict from (number of the site, name of the value) to the digest of the value's mask.

    Only values with undefined elements have a mask. An element is undefined if it depends on memory that the program
    never wrote. In the mask, a byte 1 marks such an element."""
    why: str | None = None
    """The reason why nothing was captured; None if the capture succeeded."""
    missing: Mapping[int, str] = field(default_factory=dict)
    """The sites that were not captured completely: a dict from the number of the site to the reason."""

    def of(self, site: int) -> Mapping[str, Value] | str:
        """Return a dict from names to the captured values of a site.

        If nothing was captured for the site, the reason is returned as a text."""
        return self.why or self.values.get(site) or self.missing.get(site, "not captured")


@dataclass(frozen=True, slots=True)
class Written:
    folder: Path
    bundle: Bundle
    without: tuple[int, ...]
    """The numbers of the requested sites for which no module was written.

    The compiler added the dispatches of these sites after it had formed all other dispatches."""


def written(workspace: Workspace, case: Case, wanted: Sequence[int] | None, out: Path) -> Written:
    """Write the dispatches of a case's sites to the folder `out`, as MLIR files with operands.

    `wanted` has the numbers of the sites; None means all.

    Raises:
        SpecError: the arguments cannot be used, for example because `out` has unrelated files.
        StoreError: a file of the store is damaged or cannot be read.
        ToolError: the case does not compile, or its sites cannot be found.
    """
    check(out)
    if workspace.values.get("replay", False) and not os.access(workspace.toolchain.tool(_REPLAY), os.X_OK):
        facts = {"toolchain": workspace.toolchain.version}
        raise SpecError(f"replay=yes needs {_REPLAY}, which this toolchain does not have", facts, "IREE 3.13 has it.")
    site_states.refuse_library(case)
    executor = workspace.executor
    for _ in range(_ATTEMPTS):
        traced = made_of(workspace, case, provenance.of_case(executor, case), "its sites")
        try:
            program = provenance.program_of(executor, traced.outputs)
            modules = made_of(workspace, case, extracting.of_flow(executor, traced.outputs["flow"]), "their modules")
            extracted = extracting.extracted_of(executor, modules)
            numbers = [site.number for site in site_choice.numbered(program, wanted, case.name)]
            if not (chosen := extraction.chosen(program, extracted, numbers)):
                raise _none_chosen(case, numbers)
            captured = _shared(workspace, case, list(chosen.values()))
            made = _bundle(workspace, case, program, extracted, chosen, captured)
            objects = {f"{s.name}.mlir": modules.outputs[f"{s.module}.mlir"] for s in made.sweeps}
            for sweep in made.sweeps:
                objects |= {file: captured.objects[sweep.site.number, value] for file, value in sweep.files}
            files = {name: executor.store.checked(digest) for name, digest in objects.items()}
            linked = linked_of(workspace, case, list(files.values()))
            files |= {name: executor.store.checked(digest) for name, digest in linked.items()}
        except DamagedObject:
            continue  # the object's records are dropped, so that the next attempt makes the object again
        _place(out, made, files, workspace, case)
        return Written(out, made, tuple(extraction.without_module(program, extracted, numbers)))
    raise StoreError("objects are damaged each time they are restored", {"store": executor.store.root}, "")


def _none_chosen(case: Case, numbers: Sequence[int]) -> SpecError:
    reason = "the compiler added their dispatches after all others were formed"
    if extra.FORMED in case.flags:
        reason = f"{extra.FORMED}: the dispatches of this module are formed, as in a module that doit extract wrote"
    facts = {"case": case.name, "sites": ", ".join(map(str, numbers)), "reason": reason}
    return SpecError("none of these sites has a module", facts, "")


def _shared(workspace: Workspace, case: Case, sharing: Sequence[Sequence[Site]]) -> Captured:
    """Return the captured operands and results of at least one site of each group in `sharing`.

    One site is enough, because the sites of a group launch equal dispatches."""
    # The sites of a group share a module. With `execution=`, a first site may have too few executions.
    if workspace.values.get("execution") is None:
        captured = captured_of(workspace, case, [sites[0].number for sites in sharing])
        if not any(len(sites) > 1 and sites[0].number in captured.missing for sites in sharing):
            return captured
    # Another site of a group can replace a first site that was not captured.
    return captured_of(workspace, case, [site.number for sites in sharing for site in sites])


def captured_of(workspace: Workspace, case: Case, sites: Sequence[int], recipe: str | None = None) -> Captured:
    """Return the operands and results of `sites`, captured in a call of the case.

    `recipe` is the way to make the inputs of this call; None means the case's first recipe. For each site, the
    user's variable `execution=` selects the execution to capture; the default is the last execution.

    Raises:
        SpecError: a number in `sites` is not the number of a site, or no site has the selected execution.
    """
    executor = workspace.executor
    execution, limit = workspace.values.get("execution"), workspace.values.get("limit", capture.LIMIT_BYTES)
    record = capture.of_case(executor, case, sites, execution, limit, recipe)
    if record is None:
        return Captured({}, {}, why="not captured: the case has no inputs")
    if not record.ok:
        reason = record.reason or "it failed"
        return Captured({}, {}, why=reason if reason.startswith("not captured") else f"not captured: {reason}")
    found = capture.capture_of(record)
    if execution is not None and found.executions and execution > (most := max(found.executions.values())):
        facts = {"case": case.name, "executions": f"{most} at most, in the call that is captured"}
        raise SpecError(f"no site has an execution {execution}", facts, "Without execution= the last one is captured.")
    values: dict[int, dict[str, Value]] = {site: {} for site in sites}
    objects = {(tensor.site, tensor.value): record.outputs[tensor.name] for tensor in found.tensors}
    for tensor in found.tensors:
        place = (tensor.site, tensor.value)
        content = executor.store.checked(objects[place]).read_bytes() if is_scalar(tensor.type) else None
        values[tensor.site][tensor.value] = Value(tensor.type, content, tensor.undefined)
    undefined = {
        (each.site, each.value): record.outputs[each.undefined_name] for each in found.tensors if each.undefined
    }
    missing = {each.site: f"not captured: {each.reason}" for each in found.missing}
    return Captured(values, objects, undefined, missing=missing)


def check(out: Path) -> None:
    """Check that `out` is a new or empty folder, or one that `doit extract` wrote.

    Raises:
        SpecError: `out` is a file, has unrelated files, or has a comma in its path.
    """
    hint = "Name a new folder, or one that doit extract wrote before."
    if "," in os.fspath(out):
        raise SpecError(f"out={out} has a comma, which separates folders in specs=", {}, hint)
    if out.exists() and not out.is_dir():
        raise SpecError(f"out={out} is a file; extract writes a folder", {}, hint)
    if not out.is_dir() or not (found := sorted(path.name for path in out.iterdir())):
        return
    spec = out / bundle.SPEC
    if not spec.is_file() or not spec.read_text(encoding="utf-8", errors="replace").startswith(bundle.MARK):
        raise SpecError(f"out={out} has other files", {"files": ", ".join(found[:_SHOWN])}, hint)


def linked_of(workspace: Workspace, case: Case, modules: Sequence[Path]) -> dict[str, Digest]:
    """Return the object files (machine code) to which the MLIR files `modules` refer.

    The result is a dict from the names of the object files to the digests of their contents."""
    printed = workspace.executor.printed(case.operation) if isinstance(case.operation, Module) else None
    named = printed.objects if printed else {}
    texts = [path.read_bytes() for path in modules] if named else []
    return {name: digest for name, digest in named.items() if any(name.encode() in text for text in texts)}


def made_of(workspace: Workspace, case: Case, record: Record | None, what: str) -> Record:
    """Return `record` if the work that it records succeeded.

    Raises:
        ToolError: the work failed, or `record` is None because the case does not compile. If the work failed, the
            message begins with `what`, such as `its sites`.
    """
    if record is not None and record.ok:
        return record
    if record is not None:
        raise ToolError(f"{what} cannot be found: {record.reason}", {"case": case.name})
    failure = workspace.resolver.chain(case).failure
    raise ToolError("the case does not compile", {"case": case.name, "reason": failure.why if failure else "unknown"})


def _bundle(
    workspace: Workspace,
    case: Case,
    program: Program,
    extracted: Extracted,
    chosen: Mapping[int, Sequence[Site]],
    captured: Captured,
) -> Bundle:
    whole = {number for number, values in captured.values.items() if values and number not in captured.missing}
    ordered = {module: extraction.captured_first(sites, whole) for module, sites in chosen.items()}
    sweeps = [
        extraction.sweep(program, extracted, module, sites, captured.of(sites[0].number))
        for module, sites in sorted(ordered.items(), key=lambda item: item[1][0].number)
    ]
    device, files = workspace.device(case.target, case.threads), case.tuning.files
    own = () if files else case.tuning.flags
    return Bundle(
        case=case.name,
        title=_title(case),
        target=case.target.name,
        threads=case.threads,
        flags=extra.quoted(extra.with_formed((*own, *case.flags))),
        compiler=extra.with_formed(workspace.resolver.flags(case)),
        device=command_lines.device_flags(device.uri.partition("://")[0], range(len(device.cpus))),
        iree=workspace.toolchain.version,
        program=program,
        sweeps=tuple(sweeps),
        left_out=case.tuning.name if files else None,
        replay=workspace.values.get("replay", False),
        execution=workspace.values.get("execution"),
        wrong=workspace.resolver.chain(case)["verify"].state == "failed",
    )


def _title(case: Case) -> str:
    name = case.operation.title if isinstance(case.operation, Module) else case.shape_name
    return re.sub(r"[^\w.$+-]", "-", name)


def _place(out: Path, made: Bundle, files: Mapping[str, Path], workspace: Workspace, case: Case) -> None:
    # The spec is written last, because it marks the folder as a bundle.
    texts = {bundle.README: bundle.readme(made), bundle.REPRO: bundle.repro(made), bundle.SPEC: bundle.spec(made)}
    texts = {**{file.name: file.text for file in case.tuning.files}, **texts}
    try:
        with (
            new_folder(out),
            tempfile.TemporaryDirectory(prefix=".new-", dir=out, ignore_cleanup_errors=True) as folder,
        ):
            scratch = Path(folder)
            for name, path in files.items():
                shutil.copyfile(path, scratch / name)
            for name, text in texts.items():
                (scratch / name).write_text(text, encoding="utf-8")
            for path in out.iterdir():
                if _OURS.fullmatch(path.name):
                    path.unlink()
            for name in (*files, *texts):
                (scratch / name).replace(out / name)
    except OSError as error:
        # copyfile names its source also if there is no room for the copy.
        if isinstance(error, FileNotFoundError) and error.filename in map(str, files.values()):
            facts = {"object": error.filename, "found": error.strerror}
            raise StoreError(
                "an object of the store cannot be read", facts, "doit store check finds others."
            ) from error
        raise SpecError(f"out={out} cannot be written", {"found": error.strerror}) from error
