"""Write a ninja build of a project's cases, to time ninja when everything is up to date."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from dispatchflow.cases.case import Case
from dispatchflow.iree import command_lines
from dispatchflow.project.workspace import Workspace

NINJA = str(Path(sysconfig.get_path("scripts")) / "ninja")

_INPUTS = ("exact_0.bin", "exact_1.bin", "random_0.bin", "random_1.bin")
_EXPECTED = ("expected_exact.bin", "expected_reference.bin", "expected_tolerance.bin")
_SOURCES = (
    "spec.toml",
    "recipes.py",
    "iree-compile",
    "libIREECompiler.so",
    "iree-lld",
    "iree-run-module",
    "iree-benchmark-module",
)
_MTIME_NS = 1_700_000_000_000_000_000

Edge = tuple[tuple[str, ...], str, tuple[str, ...]]
"""One `build` statement of ninja: (outputs, rule, inputs)."""


def project(root: Path, workspace: Workspace) -> Path:
    """Write build.ninja, ninja's log, and all files of the workspace's cases to the new directory `root`.

    The files of the cases are empty, because ninja looks only at their modification times."""
    root.mkdir()
    for name in _SOURCES:
        _touch(root / name)
    rules = _rules(workspace)
    hashes = _hashes(root / "small", rules)
    shutil.rmtree(root / "small")
    with (root / "build.ninja").open("w") as build, (root / ".ninja_log").open("w") as log:
        _write_rules(build, rules)
        log.write("# ninja log v7\n")
        for outputs, rule, inputs in _edges(workspace):
            build.write(f"build {' '.join(outputs)}: {rule} {' '.join(inputs)}\n")
            for output in outputs:
                log.write(f"0\t1\t{_MTIME_NS}\t{output}\t{hashes[rule]}\n")
                _touch(root / output)
    return root


def _touch(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.utime(path, ns=(_MTIME_NS, _MTIME_NS))


def _edges(workspace: Workspace) -> Iterator[Edge]:
    shapes: set[str] = set()
    for case in workspace.plan.cases:
        shape, name = case.shape_name, case.name
        inputs, expected = (tuple(f"{shape}/{file}" for file in files) for files in (_INPUTS, _EXPECTED))
        if shape not in shapes:
            shapes.add(shape)
            yield inputs, "inputs", ("recipes.py",)
            yield expected, "expected", ("recipes.py",)
        module, compiled, verified = f"{name}/module.mlir", f"{name}/module.vmfb", f"{name}/verified"
        yield (module,), "emit", ("spec.toml",)
        tools = ("|", "iree-compile", "libIREECompiler.so", "iree-lld")
        yield (compiled, f"{name}/configurations.mlir"), _compile_rule(case), (module, *tools)
        yield (verified,), "verify", (compiled, *inputs, *expected, "|", "iree-run-module")
        yield (f"{name}/measured",), "profile", (compiled, *inputs[2:], "|", "iree-benchmark-module", verified)


def _compile_rule(case: Case) -> str:
    return "compile_packed" if case.tuning.flags else "compile"


def _rules(workspace: Workspace) -> Mapping[str, str]:
    """Return a dict from the name of each ninja rule to its command line.

    The files of a case are named without a folder (`module.vmfb`), because dispatchflow runs each tool in a
    directory that has these files."""
    resolver = workspace.resolver
    device = command_lines.device_flags("local-sync", (1,))
    # All cases share these rules, whatever their sizes are.
    given = [f"512x512xf32=@random_{index}.bin" for index in (0, 1)]
    protocol = workspace.settings.protocol
    flags = {_compile_rule(case): resolver.flags(case) for case in workspace.plan.cases[:20]}
    # IREE's tools have the real command lines of dispatchflow, because ninja spends time on comparing them.
    words = {
        "emit": ("emit", "spec.toml"),
        "inputs": ("inputs", "recipes.py"),
        "expected": ("expected", "recipes.py"),
        "verify": command_lines.run_argv("iree-run-module", "module.vmfb", device, given),
        "profile": command_lines.block_argv("iree-benchmark-module", "module.vmfb", device, given, protocol),
        **{rule: command_lines.compile_argv("iree-compile", found) for rule, found in flags.items()},
    }
    return {rule: " ".join(argv) for rule, argv in words.items()}


def _write_rules(build: TextIO, rules: Mapping[str, str]) -> None:
    for rule, command in rules.items():
        build.write(f"rule {rule}\n  command = {command.replace('$', '$$')}\n")


def _hashes(folder: Path, rules: Mapping[str, str]) -> dict[str, str]:
    """Return a dict from a rule to the hash that ninja computes for the rule's command line.

    To get the hashes, ninja runs each rule once in `folder`. The tools are links to the program `true`."""
    (folder / "bin").mkdir(parents=True)
    for command in rules.values():
        (folder / "bin" / command.split()[0]).unlink(missing_ok=True)
        (folder / "bin" / command.split()[0]).symlink_to(shutil.which("true") or "/bin/true")
    with (folder / "build.ninja").open("w") as build:
        _write_rules(build, rules)
        build.writelines(f"build out_{rule}: {rule}\n" for rule in rules)
    path = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
    subprocess.run([NINJA, "--quiet"], cwd=folder, env=path, check=True, stdout=subprocess.DEVNULL)
    lines = [line.split("\t") for line in (folder / ".ninja_log").read_text().splitlines()]
    if lines[0] != ["# ninja log v7"]:
        raise SystemExit(f"this benchmark writes ninja logs of version 7, not {lines[0][0]}; pip install 'ninja>=1.12'")
    return {line[3].removeprefix("out_"): line[4] for line in lines[1:]}
