"""Define a small MLIR module, and variants of it, to study code digests.

A variant changes the module or its compilation. A code digest is the hash of all entries of a vmfb.
docs/digest-study.md shows which variants change the digest."""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from dispatchflow.iree import command_lines
from dispatchflow.iree.cpu_features import HostCpu
from dispatchflow.iree.release import NEWEST
from dispatchflow.iree.targets import TARGETS
from dispatchflow.store.store import Store
from dispatchflow.tools import devices, processes, toolchain
from dispatchflow.tools.limits import DEFAULT
from dispatchflow.tools.toolchain import environment_of

_COMMON = TARGETS["vmvx"].flags[2:]
_GPUS = {
    "vulkan": ("--iree-hal-target-device=vulkan", "--iree-vulkan-target=ampere", *_COMMON),
    "cuda": ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80", *_COMMON),
    "rocm": ("--iree-hal-target-device=hip", "--iree-rocm-target=gfx942", *_COMMON),
}
BACKENDS = ("llvm-cpu", "vmvx", *_GPUS)


def flags(backend: str, host: HostCpu) -> tuple[str, ...]:
    return _GPUS[backend] if backend in _GPUS else TARGETS[backend].resolved_flags(host, NEWEST)


def module(
    rows: int = 8,
    scale: float = 2.5,
    weight: float = 1.0,
    added: int = 7,
    body: str = "maximumf",
    swapped: bool = False,
) -> str:
    """Return MLIR text that launches two independent dispatches: a product and an elementwise operation.

    `weight` is the last element of the product's constant operand. In the elementwise operation, `scale` is a
    constant of the executable, and the host passes `added`."""
    weights = struct.pack("<1024f", *(float(i % 7) for i in range(1023)), weight).hex()
    product = f"""\
    %zeros = linalg.fill ins(%zero : f32) outs(%space : tensor<{rows}x16xf32>) -> tensor<{rows}x16xf32> loc(unknown)
    %c = linalg.matmul ins(%a, %b : tensor<{rows}x64xf32>, tensor<64x16xf32>)
        outs(%zeros : tensor<{rows}x16xf32>) -> tensor<{rows}x16xf32> loc(unknown)
"""
    elementwise = f"""\
    %y = linalg.generic {{indexing_maps = [#map, #map], iterator_types = ["parallel"]}}
        ins(%x : tensor<512xf32>) outs(%place : tensor<512xf32>) {{
    ^bb0(%in: f32 loc(unknown), %out: f32 loc(unknown)):
      %scaled = arith.mulf %in, %scale : f32 loc(unknown)
      %float = arith.sitofp %added : i32 to f32 loc(unknown)
      %sum = arith.addf %scaled, %float : f32 loc(unknown)
      %bounded = arith.{body} %sum, %zero : f32 loc(unknown)
      linalg.yield %bounded : f32 loc(unknown)
    }} -> tensor<512xf32> loc(unknown)
"""
    return f"""\
#map = affine_map<(d0) -> (d0)>
module @dispatch {{
  func.func @main(%a: tensor<{rows}x64xf32> loc(unknown), %x: tensor<512xf32> loc(unknown))
      -> (tensor<{rows}x16xf32>, tensor<512xf32>) {{
    %zero = arith.constant 0.0 : f32 loc(unknown)
    %scale = arith.constant {scale} : f32 loc(unknown)
    %known = arith.constant {added} : i32 loc(unknown)
    %added = util.optimization_barrier %known : i32 loc(unknown)
    %b = arith.constant dense<"0x{weights}"> : tensor<64x16xf32> loc(unknown)
    %space = tensor.empty() : tensor<{rows}x16xf32> loc(unknown)
    %place = tensor.empty() : tensor<512xf32> loc(unknown)
{elementwise + product if swapped else product + elementwise}    return %c, %y : tensor<{rows}x16xf32>, tensor<512xf32> loc(unknown)
  }} loc(unknown)
}} loc(unknown)
"""


# --- how it is compiled


@dataclass(frozen=True)
class Compilation:
    """One call of the compiler. Only `text` and `flags` should be able to influence the compiled code."""

    text: str
    flags: tuple[str, ...]
    source: str = "-"
    """The file that the compiler reads; `-` is standard input."""
    output: str = "module.vmfb"
    folder: str = "."
    variables: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    """A command that starts the compiler, such as `unshare …`; empty if it is started directly."""
    cpus: tuple[int, ...] = ()


class CompileFailed(Exception):
    pass


class Study:
    """Compiles modules with one IREE compiler, and with the flags and environment that dispatchflow uses."""

    def __init__(self, store: Store, word: str = "current") -> None:
        self.store = store
        self.toolchain = toolchain.find(store, word, lambda line: print(line, file=sys.stderr))
        self.host = devices.host_cpu(store, self.toolchain, DEFAULT)
        self._staged: dict[str, Compilation] = {}
        self._originals: dict[tuple[str, bool], bytes] = {}

    def base(self, backend: str) -> Compilation:
        return Compilation(module(), flags(backend, self.host))

    def staged(self, backend: str) -> Compilation:
        """Return a compilation that starts from the module's text after the phase `executable-targets`.

        In this text, the host program can be edited without changing the executables. For example, it can be given
        another workgroup count."""
        if backend not in self._staged:
            base = self.base(backend)
            text = self.compiled(replace(base, flags=(*base.flags, "--compile-to=executable-targets"))).decode()
            self._staged[backend] = Compilation(text, (*base.flags, "--compile-from=executable-targets"))
        return self._staged[backend]

    def original(self, backend: str, staged: bool) -> bytes:
        """Return the vmfb of the unchanged module, with which the variants are compared.

        If `staged` is true, the compiler starts from the text that its phase `executable-targets` returned."""
        key = (backend, staged)
        if key not in self._originals:
            self._originals[key] = self.compiled(self.staged(backend) if staged else self.base(backend))
        return self._originals[key]

    def compiled(self, c: Compilation) -> bytes:
        compiler, _, *rest = command_lines.compile_argv(self.toolchain.compiler, c.flags, c.output)
        return self._run(c, (*c.prefix, compiler, c.source, *rest))

    def stripped(self, text: str) -> str:
        """Return `text` with each location replaced by an explicit `loc(unknown)`.

        Without an explicit location, the parser gives an op its line and column as location."""
        program = os.fspath(Path(self.toolchain.compiler).with_name("iree-opt"))
        argv = (program, "-", "--strip-debuginfo", "--mlir-print-debuginfo", "-o", "module.vmfb")
        return self._run(Compilation(text, ()), argv).decode()

    def _run(self, c: Compilation, argv: tuple[str, ...]) -> bytes:
        source = "module.mlir" if c.source == "-" else c.source
        with self.store.busy(), self.store.scratch() as scratch:
            folder = scratch / c.folder
            for path in (folder / source, folder / c.output):
                path.parent.mkdir(parents=True, exist_ok=True)
            (folder / source).write_text(c.text)
            environment = {**environment_of(self.toolchain, command_lines.environment({})), **c.variables}
            command = processes.Command(argv, folder, environment, stdin=source, time_limit_s=300, cpus=c.cpus)
            if failure := processes.run(command).failure:
                raise CompileFailed(f"{failure}: {processes.shortened(folder / 'stderr', 600)}")
            return (folder / c.output).read_bytes()


# --- one thing changed


@dataclass(frozen=True)
class Variant:
    """A change of the study's module or of its compile, and how the change may affect the code digest."""

    moves: bool | None
    """True if the code digest must change, False if it must stay the same, None if both are allowed."""
    make: Callable[[Study, str], Compilation]
    staged: bool = False
    """True if the change is made after the phase `executable-targets` instead of before the first phase."""


def _with(moves: bool, **words: Any) -> Variant:
    return Variant(moves, lambda study, backend: replace(study.base(backend), text=module(**words)))


def _flag(moves: bool, flag: str) -> Variant:
    def make(study: Study, backend: str) -> Compilation:
        base = study.base(backend)
        return replace(base, flags=(*base.flags, flag))

    return Variant(moves, make)


def _edited(moves: bool | None, edit: Callable[[str], str], staged: bool = False) -> Variant:
    def make(study: Study, backend: str) -> Compilation:
        base = study.staged(backend) if staged else study.base(backend)
        return replace(base, text=edit(base.text))

    return Variant(moves, make, staged)


def _once(pattern: str, by: str | Callable[[re.Match[str]], str], text: str) -> str:
    found, number = re.subn(pattern, by, text, count=1, flags=re.DOTALL)
    assert number == 1, f"the compiler's text has no {pattern}"
    return found


_LAUNCH = r"\n *stream\.cmd\.dispatch .*?\n *\}"


def more_workgroups(text: str) -> str:
    return _once(r"hal\.return %\w+,", "%more = arith.constant 77 : index hal.return %more,", text)


def swapped_launches(text: str) -> str:
    return _once(f"({_LAUNCH})({_LAUNCH})", lambda found: found[2] + found[1], text)


def one_launch_more(text: str) -> str:
    return _once(_LAUNCH, lambda found: found[0] * 2, text)


def located(text: str) -> str:
    """Replace each `loc(unknown)` in the text by a location in a file; each gets a line number of its own."""
    lines = count(1)
    return re.sub(r"loc\(unknown\)", lambda _: f'loc("/home/someone/a model.mlir":{next(lines)}:5)', text)


def rewritten(text: str) -> str:
    return "// A comment.\n\n" + re.sub(r"%(\w+)", r"%other_\1", text).replace("\n", " // why\n\n  ")


def _stripped(study: Study, backend: str) -> Compilation:
    base = study.base(backend)
    return replace(base, text=study.stripped(located(base.text)))


def _threads(study: Study, backend: str) -> Compilation:
    base = study.base(backend)
    return replace(base, flags=tuple(flag for flag in base.flags if flag != "--mlir-disable-threading"))


SURROUNDINGS: dict[str, dict[str, Any]] = {
    "another path and name of the source": {"source": "a folder/it's.mlir"},
    "another name of the output": {"output": "elsewhere/other.vmfb"},
    "another working directory": {"folder": "a b/ä/-c"},
    "another user, home, time zone, language, date": {
        "variables": {
            "USER": "someone", "LOGNAME": "someone", "HOME": "/home/someone", "TZ": "Asia/Tokyo", "LANG": "C.UTF-8",
            "TMPDIR": "/var/tmp", "SOURCE_DATE_EPOCH": "1000000000",
        }
    },
    "one CPU": {"cpus": (min(os.sched_getaffinity(0)),)},
}  # fmt: skip

_RENAMED = 'hostname another-machine && test "$(uname -n)" = another-machine && exec "$0" "$@"'
RENAME = ("/usr/bin/unshare", "--map-root-user", "--uts", "/bin/sh", "-c", _RENAMED)
"""The beginning of a command that runs a program under another host name.

The command works only where users may create Linux namespaces."""


def _around(**changed: Any) -> Variant:
    return Variant(False, lambda study, backend: replace(study.base(backend), **changed))


VARIANTS: dict[str, Variant] = {
    "a constant in an executable": _with(True, scale=2.75),
    "a constant beside the executables": _with(True, weight=2.0),
    "a number that the host passes": _with(True, added=9),
    "another executable: max → min": _with(True, body="minimumf"),
    "another shape": _with(True, rows=16),
    "another order in the source": _with(True, swapped=True),
    "a workgroup count alone": _edited(True, more_workgroups, staged=True),
    "the launch order alone": _edited(True, swapped_launches, staged=True),
    "one launch more": _edited(True, one_launch_more, staged=True),
    "--iree-opt-level=O3": _flag(True, "--iree-opt-level=O3"),
    "--iree-stream-partitioning-favor=debug": _flag(True, "--iree-stream-partitioning-favor=debug"),
    "--iree-opt-level=O1, without effect here": _flag(False, "--iree-opt-level=O1"),
    "the same again": _around(),
    "comments, white space, names of values": _edited(False, rewritten),
    "locations in a file": _edited(None, located),
    "locations in a file, stripped": Variant(False, _stripped),
    "compiler with threads": Variant(False, _threads),
    "another name of the machine": _around(prefix=RENAME, variables={"PATH": os.defpath}),
    **{name: _around(**changed) for name, changed in SURROUNDINGS.items()},
    "all of the last five": _around(**{k: v for changed in SURROUNDINGS.values() for k, v in changed.items()}),
}
