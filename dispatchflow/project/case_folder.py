"""Write the directory `build/`, which has a folder for each case with links to files in the store.

The folders are for users: no command reads them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from dispatchflow.cases import module
from dispatchflow.cases.module import Module
from dispatchflow.cases.provider import MODEL
from dispatchflow.cases.rotating_inputs import HOT
from dispatchflow.engine.call import library_argv
from dispatchflow.engine.resolver import Resolver
from dispatchflow.engine.state import CaseState
from dispatchflow.iree import command_lines, parameters
from dispatchflow.iree.rotation import FILE
from dispatchflow.keys import Digest, digest_of
from dispatchflow.libraries import calls
from dispatchflow.measurement import trials
from dispatchflow.operations import Operation
from dispatchflow.results.parquet import CASES
from dispatchflow.results.site_rows import SITE_ROWS
from dispatchflow.store.entries import named_files
from dispatchflow.store.store import Store
from dispatchflow.tools import processes
from dispatchflow.tools.toolchain import environment_of
from dispatchflow.workload import Workload

_CALLS = 10
"""The number of calls in each repetition of the benchmark that `repro.sh sites` profiles."""
_OF_SITES = {"sites": "sites.json", "times": "site_times.json", "flow": "flow.mlirbc"}


def write(root: Path, store: Store, resolver: Resolver, chain: CaseState, sites: str | None = None) -> Path:
    """Write the folder `build/CASE/` with links to the files of a case in the store, and return its path.

    `sites` is the text for the file sites.txt; if it is None, sites.txt is removed. Most of the files are listed in
    docs/verification.md."""
    root = root.resolve()  # if `root` is a link, `..` in the links that it contains starts at the real folder
    folder = root / chain.case.name
    folder.mkdir(parents=True, exist_ok=True)
    wanted = links(chain, resolver)
    for name, digest in wanted.items():
        link(folder / name, store.path(digest))
    for path in (*folder.iterdir(), *folder.glob(f"{MODEL}/**/*")):
        if path.is_symlink() and path.relative_to(folder).as_posix() not in wanted:
            path.unlink()
    _write(folder / "case.txt", description(chain), 0o644)
    _write(folder / "repro.sh", repro(chain, resolver), 0o755)
    if sites is None:
        (folder / "sites.txt").unlink(missing_ok=True)
    else:
        _write(folder / "sites.txt", f"{sites}\n", 0o644)
    for table in (CASES, SITE_ROWS):
        if (store.root / table.folder).is_dir() and not (shortcut := root / table.folder).exists():
            link(shortcut, store.root / table.folder)
    return folder


def _write(path: Path, text: str, mode: int) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8", errors="surrogateescape")  # paths may have bytes that are not UTF-8
    beside.chmod(mode)
    beside.replace(path)


def names(root: Path) -> set[str]:
    """Return the names of the cases that have a folder in `root`, the directory `build/`."""
    return set(os.listdir(root)) if root.is_dir() else set()  # noqa: PTH208 (there may be thousands; names suffice)


def description(chain: CaseState) -> str:
    """Return the text of case.txt, which describes the case.

    The text has the requested and the applied configuration, the state of each stage, and how the inputs are made."""
    case, compiled, verified = chain.case, chain["compile"].record, chain["verify"].record
    lines = {
        "case": case.name,
        "operation": f"{case.operation.name} {case.operation.label}",
        "provider": case.provider,
        "tuning": case.tuning.name if case.library is None else None,
        "flags": " ".join(case.flags) or None,
        "requested": (chain.dispatch.requested or "the compiler's choice") if case.library is None else None,
        "cache": case.cache,
        "applied": compiled.facts.get("applied") if compiled else None,
        "device": f"{chain.device.uri}, CPUs {', '.join(map(str, chain.device.cpus))}",
        "verification": verified.facts.get("verification") if verified else None,
        **_inputs(case.operation),
        **{stage: f"{step.state}: {step.why}" for stage, step in chain.steps.items()},
    }
    return "".join(f"{name:<13}  {value}\n" for name, value in lines.items() if value is not None)


def _inputs(program: Workload) -> dict[str, str]:
    from dispatchflow.verification import inputs  # imports numpy, which a run with nothing to do does not need

    uniform = f"uniform in [-1, 1), integers over their whole range; seed {inputs.SEED + 1}, operand number"
    if isinstance(program, Operation):
        r, safe, _ = inputs.exact_range(program)
        terms = min(safe, program.terms)
        exact = f"integers in -{r} … {r}, {terms} nonzero terms a result; seed {inputs.SEED}, operand number"
        digits, few = inputs.wide_digits(program) if "wide" in program.recipes else (0, 0)
        wide = (
            f"{digits} binary digits by 1 or -1, {few} nonzero terms a result; seed {inputs.SEED + 2}, operand number"
        )
        own = f"the operation's own: docs/verification.md; seed {inputs.SEED + 3}, operand number"
        known = {"exact": exact, "wide": wide, "random": uniform}
        return {f"{recipe} inputs": known.get(recipe.rstrip("23456789"), own) for recipe in program.recipes}
    assert isinstance(program, Module)
    said = [i.file.spelt if i.file else str(i.value) for i in program.inputs or ()]
    against = (
        program.against.name
        if program.against
        else program.against_library
        or ", ".join(item if isinstance(item, str) else item.spelt for item in program.expected)
    )
    weights = ", ".join(parameters.value(item.scope, item.file.path) for item in program.parameters)
    return {
        "file": program.source.path,
        "function": program.function,
        "inputs": "; ".join(said) or f"random: {uniform}",
        **({"parameters": weights} if weights else {}),
        "compared with": against or "nothing: it was only run",
    }


def links(chain: CaseState, resolver: Resolver) -> dict[str, Digest]:
    """Return a dict from the name of each link in a case's folder to the digest of the linked file."""
    found: dict[str, Digest] = {}
    program = chain.case.library_program
    names = {
        "vmfb": "module.vmfb",
        "module": "module.mlir" if program is None else program.main,
        "configurations": "configurations.mlir",
        "labelled": "labelled.mlir",
    }
    for stage in ("emit", "compile", "verify"):
        record = chain[stage].record
        for output, digest in (record.outputs if record else {}).items():
            named = "." in output or "/" in output  # a file that the compiler or a library reads keeps its name
            own = output if named else f"{output}.bin"
            found[names.get(output, f"{stage}.log" if output == "log" else own)] = digest
    if chain.sites is not None and chain.sites.state == "made" and chain.sites.record is not None:
        outputs = chain.sites.record.outputs
        found |= {file: outputs[name] for name, file in _OF_SITES.items() if name in outputs}
    if (turns := trials.rotation_action(resolver, chain.case)) and (made := resolver.recorded(turns)) and made.ok:
        found[FILE] = made.outputs["vmfb"]
    if data := resolver.supplies.data(chain.case.operation) or resolver.supplies.operands(chain.case.operation):
        for name, digests in data.digests.items():
            if name == "expected_unseen" and digests[0] == digest_of(b""):
                continue  # the list of errors that the recipes would not detect is empty
            file = f"{name}.txt" if name in ("expected_unseen", "expected_types") else f"{name}.bin"
            found |= {file: digests[0]} if name.startswith("expected") else data.files(name)
    return found


def link(path: Path, to: Path) -> None:
    """Make `path` a symbolic link to `to`, which is in the store. An existing link is updated.

    If `path` is a file that a user made, it stays unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    wanted = os.path.relpath(to, path.parent)
    if path.is_symlink():
        if os.readlink(path) == wanted:  # noqa: PTH115 (text, not a path: `..` must stay)
            return
        path.unlink(missing_ok=True)
    with contextlib.suppress(FileExistsError):  # another invocation created it first, or it is a file of the user
        path.symlink_to(wanted)


def by_hand(chain: CaseState, resolver: Resolver) -> Mapping[str, tuple[str, ...]]:
    """Return a dict from each step of a case, such as `compile`, to the command line that repeats it.

    The step `compile` must run in an empty directory: in the case's folder, it would write through a link into the
    store. All other steps run in the case's folder."""
    case, device, toolchain = chain.case, chain.device, resolver.toolchain
    program = case.operation
    operands = resolver.supplies.operands(program)
    declared = resolver.supplies.declaration(program) if isinstance(program, Module) else None
    outputs = module.output_names(declared.results, "again") if declared else ("again.bin",)
    if case.library is not None:
        call = library_argv(case, resolver.installed(case), device, operands, program.recipes[-1])
        rotation = resolver.rotation(case)
        return {
            "run": (*call, *(f"--output={name}" for name in outputs)),
            "benchmark": calls.block_argv(call, resolver.settings.protocol, None, rotation.count if rotation else None),
        }
    flags = command_lines.device_flags(device.uri, device.cpus)
    given = operands.inputs(program.recipes[-1]) if operands else ()
    weights = [value for value, _ in operands.parameters] if operands else []
    emitted = chain["emit"].record if isinstance(program, Module) else None
    named = "".join(f'@"{name}"' for name in emitted.facts.get("functions", ())).encode() if emitted else b""
    profiled = {}
    if chain.sites is not None and chain.sites.record is not None and "times" in chain.sites.record.outputs:
        profiled["sites"] = command_lines.profiled_benchmark_argv(
            toolchain.tool("iree-benchmark-module"), "module.vmfb", flags, given, _CALLS,
            function=program.function, parameters=weights,
        )  # fmt: skip
    return {
        "compile": command_lines.compile_argv(
            toolchain.compiler, resolver.flags(case), dump=command_lines.dump_of(named)
        ),
        "run": command_lines.run_argv(
            toolchain.tool("iree-run-module"), "module.vmfb", flags, given, outputs, program.function, weights
        ),
        "benchmark": command_lines.block_argv(
            toolchain.tool("iree-benchmark-module"),
            "module.vmfb",
            flags,
            given,
            resolver.settings.protocol,
            dispatches=toolchain.dispatch_statistics and trials.has_dispatches(chain),
            function=program.function,
            rotation=None if case.cache == HOT else FILE,
            parameters=weights,
        ),
        **profiled,
    }


def repro(chain: CaseState, resolver: Resolver) -> str:
    """Return the text of the script repro.sh, whose argument is `compile`, `run`, `benchmark` or `sites`.

    With `run`, the script writes the results to again*.bin. With `sites`, it writes calls.jsonl."""
    lines = by_hand(chain, resolver)
    cpus = ",".join(map(str, chain.device.cpus))
    compare = 'cmp module.vmfb "$case/module.vmfb" || { trap - EXIT; echo "the new output is in $made" >&2; exit 1; }'
    shown = {name: processes.quoted(argv) for name, argv in lines.items()}
    chosen = "" if cpus else processes.spelled(command_lines.choice(os.environ))
    before = {"run": chosen, "benchmark": f"taskset -c {cpus}" if cpus else chosen}
    if "sites" in shown:
        before["sites"] = before["benchmark"]
    bodies = {name: f"{words} {shown[name]}".lstrip() for name, words in before.items()}
    if "sites" in bodies:
        export = processes.quoted(command_lines.profile_export_argv(resolver.toolchain.tool("iree-profile")))
        bodies["sites"] += f"\n    {export}"
    if "compile" in shown:
        objects = chain["emit"].record.outputs if chain["emit"].record else {}
        named = [*(file.name for file in chain.case.tuning.files), *named_files(objects)]
        given = (f'cp "$case/{name}" .' for name in named)
        made = ("made=$(mktemp -d)", """trap 'rm -r "$made"' EXIT""", 'cd "$made"')
        place = "".join(f"{line}\n    " for line in (*made, *given))
        compiler = f"{processes.spelled(command_lines.COMPILING)} {shown['compile']}"
        bodies = {"compile": f'{place}{compiler} < "$case/module.mlir"\n    {compare}\n    echo "same bytes"', **bodies}
    cases = "\n".join(f"  {name})\n    {body}\n    ;;" for name, body in bodies.items())
    environment = processes.spelled(environment_of(resolver.toolchain, resolver.environment))
    absent = " ".join(name for name in command_lines.ALLOWED_ENVIRONMENT if name not in resolver.environment)
    return f"""\
#!/bin/sh
# {chain.case.name}
# inputs: exact_*.bin, wide_*.bin, random_*.bin, given_*.bin; expected results: expected_*.bin (…_reference and
# …_tolerance are float64)
set -eu
case=$(cd "$(dirname "$0")" && pwd)
cd "$case"
unset {absent}
export {environment}
case "${{1:-}}" in
{cases}
  *)
    echo "usage: $0 {" | ".join(bodies)}" >&2
    exit 2
    ;;
esac
"""
