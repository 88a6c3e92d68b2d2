"""Check the contents of the store (`doit store check`).

Parquet files are compared with the recorded rows. A sample of the objects (outputs of stages) and all fetched IREE
releases are compared with their digests. A sample of the compiles is repeated."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

from dispatchflow.engine.executor import dumped
from dispatchflow.errors import ToolchainError, UnreadableObject
from dispatchflow.iree import command_lines, vmfb
from dispatchflow.iree.toolchain import Toolchain
from dispatchflow.keys import Digest, Key, digest_file, digest_of
from dispatchflow.project.workspace import Workspace
from dispatchflow.reports import store as report
from dispatchflow.results import parquet, publish
from dispatchflow.results.site_rows import SITE_ROWS
from dispatchflow.store import disk, retention
from dispatchflow.store.entries import Record, named_files
from dispatchflow.store.store import DamagedObject, Store
from dispatchflow.tools import processes, releases, toolchain
from dispatchflow.tools.toolchain import environment_of

_SAMPLE = 20
_OBJECTS_A_COMPILE = 10
_FILE_GONE = "a file that the compile reads is not in the store (files of calibration kernels never are)"
_REWRITTEN = "Remove it: the next run writes it again"

_Item = TypeVar("_Item")


def check(workspace: Workspace) -> tuple[str, bool]:
    """Return the report of `doit store check`, and whether everything was sound.

    Damaged objects are removed with their records, so that the next run makes them again. If a repeated compile
    gives different bytes, the report says so, and the recorded outputs are kept."""
    store, found = workspace.store, report.Findings()
    if problems := store.records.problems():  # nothing else is checked, because the records may all be wrong
        found.wrong += [f"{store.root / 'records.sqlite'}: {' '.join(problem.split())}" for problem in problems]
        found.wrong.append(
            "move that file away to start with empty records; the Parquet parts in results/ stay readable"
        )
        return report.checked(found), False
    store.users.join(lambda _: workspace.say("waits until `doit store clean` is done"))
    wanted = workspace.values.get("sample", _SAMPLE)
    _check_parts(store, found)
    _check_objects(store, None if wanted is None else wanted * _OBJECTS_A_COMPILE, found)
    _check_compiles(workspace, wanted, found)
    _check_releases(store, found)
    return report.checked(found), not found.wrong


def _check_releases(store: Store, found: report.Findings) -> None:
    for version in releases.fetched_versions(store):
        if edits := releases.edited(store, version):
            found.wrong.append(releases.warning(version, edits))


def _sample(items: Sequence[_Item], count: int | None) -> list[_Item]:
    # Random, so that repeated checks cover all items.
    return list(items) if count is None else random.sample(items, min(count, len(items)))


def _check_parts(store: Store, found: report.Findings) -> None:
    for table in (parquet.CASES, SITE_ROWS):
        _check_parts_of(store, table, found)


def _check_parts_of(store: Store, table: parquet.Table, found: report.Findings) -> None:
    recorded = set(publish.parts_of(store, table))
    for part in sorted((store.root / table.folder).glob("*.parquet")):
        other = None
        try:
            if (rows := parquet.table(part, table)) is None:
                continue
            if part.name in recorded:
                other = publish.damage(store, part, rows, table)
        except (OSError, ValueError) as error:
            found.wrong.append(f"{part} cannot be read: {str(error).rstrip('.')}. {_REWRITTEN}")
            continue
        found.parts += 1
        if other is not None:
            found.wrong.append(f"{part}: {other}. {_REWRITTEN}")


def _check_objects(store: Store, count: int | None, found: report.Findings) -> None:
    held = store.records.held()  # read before the objects: those that another run adds meanwhile are not missing
    sizes = store.objects()
    kind_of = retention.kinds(sizes, held)
    named = {digest: record for record in held for digest in record.outputs.values()}
    missing = [digest for digest in named if digest not in sizes]
    chosen = _sample(list(sizes), count)
    found.objects, found.objects_read = len(sizes), len(chosen)
    for digest in (*missing, *chosen):
        record = named.get(digest)
        _is_sound(store, digest, f"{record.stage} of {_name(store, record.key)}" if record else kind_of[digest], found)


def _is_sound(store: Store, digest: Digest, of: str, found: report.Findings) -> bool:
    """Return whether an object, which is a file in the store, is undamaged.

    If the object is damaged, missing or unreadable, a line is added to `found.wrong`. In this line, `of`
    says what the object is."""
    state = "damaged" if store.path(digest).exists() else "missing"
    try:
        store.checked(digest)
    except DamagedObject:
        found.wrong.append(f"object {digest} ({of}) is {state}: removed; a run that needs it builds it again")
    except UnreadableObject as error:
        file, why = error.facts.values()
        found.wrong.append(
            f"object {digest} ({of}) cannot be read: {why}. Move {file} away: a run that needs it builds it again"
        )
    else:
        return True
    return False


def _name(store: Store, key: Key) -> str:
    return store.records.name_of(key) or f"key {key}"


def _check_compiles(workspace: Workspace, count: int | None, found: report.Findings) -> None:
    store, at_hand = workspace.store, _toolchains(workspace)
    ready: list[tuple[Record, Toolchain]] = []
    for key in store.records.compiled():
        found.compiles += 1
        record = store.records.get(key)
        if record is None:  # it was removed just now, or by another run
            continue
        if missing := _ASKED - record.ingredients.keys():
            found.wrong.append(f"record of the compile {key} is damaged: it has no {', '.join(sorted(missing))}")
            continue
        asked = record.ingredients
        if asked["toolchain"] not in at_hand:
            found.not_again[f"toolchain {asked['toolchain']} is not available"] += 1
        elif not all(store.path(digest).is_file() for digest in _read_by(record)):
            found.not_again[_FILE_GONE] += 1
        else:
            ready.append((record, at_hand[asked["toolchain"]]))
    chosen = _sample(ready, count)
    if chosen:
        workspace.say(f"compiling {len(chosen)} of {found.compiles} again")
    for record, compiler in chosen:
        of = f"read by the compile of {_name(store, record.key)}"
        if not all(_is_sound(store, digest, of, found) for digest in _read_by(record)):
            continue
        module = store.path(record.ingredients["module"]).read_bytes()
        found.compiles_again += 1
        if difference := _difference(workspace, record, compiler, module):
            found.wrong.append(f"compile of {_name(store, record.key)}, key {record.key}: {difference}")


_ASKED = {"toolchain", "module", "flags", "environment"}
"""The names of the values from which the key of a compile is computed."""


def _read_by(record: Record) -> list[Digest]:
    return [record.ingredients["module"], *named_files(record.outputs).values()]


def _toolchains(workspace: Workspace) -> dict[Digest, Toolchain]:
    found = {}
    for word in workspace.toolchain_words:
        with suppress(ToolchainError):  # its compiles are then counted as not checked
            one = toolchain.find(workspace.store, word, workspace.say, limits=workspace.settings.limits)
            found[one.digest] = one
    return found


def _difference(workspace: Workspace, record: Record, compiler: Toolchain, module: bytes) -> str | None:
    """Compile `module` again, and describe how the outputs differ from the recorded outputs.

    Returns None if the outputs are equal."""
    asked = record.ingredients
    with (store := workspace.store).busy(), store.scratch() as scratch:
        with store.writing():
            (scratch / "module.mlir").write_bytes(module)
        store.place(scratch, named_files(record.outputs))
        to = command_lines.dump_of(module)
        argv = command_lines.compile_argv(compiler.compiler, asked["flags"], dump=to)
        limits = workspace.settings.limits
        command = processes.Command(
            argv, scratch, environment_of(compiler, asked["environment"]) | command_lines.COMPILING,
            stdin="module.mlir",
            time_limit_s=limits.compile_s, memory_limit_bytes=limits.memory_bytes,
        )  # fmt: skip
        try:
            outcome = processes.run(command)
        except OSError as error:
            disk.check(store.root, str(error))
            raise
        made = scratch / "module.vmfb"
        failure = limits.failure("compile_limit", outcome, processes.shortened(scratch / "stderr"))
        if failure or not made.is_file():
            disk.check(store.root, failure or "")
            return f"compiled before, now: {failure or 'the compiler left no module'}"
        now = {
            "vmfb": digest_file(made),
            "configurations": digest_of(dumped(scratch, to)),
            "code": vmfb.inspect(made.read_bytes()).code_digest,
        }
    before = {**record.outputs, "code": record.facts["code_digest"]}
    differing = [name for name, digest in now.items() if before.get(name) != digest]
    if not differing:
        return None
    told = "; ".join(f"{name} {before.get(name)} before, {now[name]} now" for name in differing)
    same = "" if "code" in differing else f"; code {now['code']} as before"
    return f"NOT REPRODUCIBLE: {told}{same}"
