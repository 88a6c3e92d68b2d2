"""Sample the machine instructions of one kernel of a case with perf."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dispatchflow.cases.case import Case
from dispatchflow.engine import recompile
from dispatchflow.engine.call import reason_of
from dispatchflow.engine.recompile import Recompile
from dispatchflow.engine.stages import Artifacts, StageExecutor
from dispatchflow.errors import ToolError
from dispatchflow.iree import command_lines, instructions
from dispatchflow.iree.instructions import Annotated
from dispatchflow.iree.targets import Device
from dispatchflow.keys import Digest
from dispatchflow.tools import processes, sampling
from dispatchflow.tools.outcome import Outcome

LINKED = "linked"
"""The kind of the action that compiles a case and links its code with the system's linker."""
_FREQUENCY_HZ = 2000
_BLOCKS = 30
"""The sampling lasts as long as this number of blocks (benchmark processes)."""
_SAMPLES, _LIBRARIES = "perf.data", "libraries"
_OUTPUT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Annotation:
    """The samples that perf took of the machine instructions of one kernel.

    The sampled code is not the case's own: the case was compiled a second time and linked with the system's linker."""

    function: Annotated
    same_code: bool | None
    """True if the kernel has the same instructions in the case's own code as in the sampled second build.

    None if they could not be compared."""
    why: str
    """A text: the number of compared instructions (`120 instructions`), or why none were compared."""


def refusal(case: Case, device: Device) -> str | None:
    """Return why the instructions of a case's kernels cannot be sampled; None if they can."""
    if case.library is not None:
        return f"{case.provider} brings its own code"
    if case.target.backend != "llvm-cpu":
        return f"{case.target.name} is not code of this machine's CPU; annotate takes llvm-cpu"
    return device.absent


def annotate(executor: StageExecutor, case: Case, device: Device, kernel: str) -> Annotation:
    """Compile a case with the system's linker, run it under `perf record`, and return a kernel's samples.

    Raises:
        ToolError: perf or objdump is missing or fails, the case cannot be built or run, or no sample is in the
            kernel.
    """
    perf, objdump = sampling.perf(), sampling.objdump()
    if objdump is None:
        raise ToolError(
            "perf annotate needs objdump, which is not installed", {}, "On Debian: apt-get install binutils."
        )
    found = executor.artifacts(case, expected=False)
    if found is None:
        step = executor.resolver.chain(case).failure
        raise ToolError(f"{case.name} cannot be run", {"found": step.why if step else "its inputs do not exist"})
    built = _built(executor, case)
    with executor.store.busy(), executor.store.scratch() as scratch:
        place = executor.place(scratch, device, {"module.vmfb": built} | found.data.files(_recipe(found)))
        work = _Sampling(executor, scratch, place.environment, device)
        work.record(perf, work.benchmark(case, found))
        text = work.output("annotate", instructions.annotate_argv(perf, _SAMPLES, kernel))
        if (function := instructions.annotated(text)) is None or not function.samples:
            raise ToolError(
                "no sample is in this kernel", {"kernel": kernel, "sampled": f"{work.duration_s:g} s"}, _RARE
            )
        same, why = work.compared(objdump, built, found.files["module.vmfb"], kernel)
        return Annotation(function, same, why)


_BY_HAND = "Try perf by itself: perf record -e cpu-clock -o perf.data -- true."
_RARE = "The kernel takes too small a part of the call, or is only launched before the first call."


def _search_path() -> str:
    return os.environ.get("PATH", os.defpath)


def _recipe(found: Artifacts) -> str:
    return next(iter(found.data.measured.digests))


def _built(executor: StageExecutor, case: Case) -> Digest:
    def take(scratch: Path) -> dict[str, Digest]:
        made = scratch / "module.vmfb"
        return {"vmfb": executor.store.put_file(made)} if made.is_file() else {}

    source = recompile.source_of(executor, case)
    search = (("PATH", _search_path()),)  # for the linker
    record = Recompile(executor, case, source, variables=search).record(LINKED, instructions.SYSTEM_LINKED, take)
    if not record.ok:
        raise ToolError("the module cannot be built with the system's linker", {"found": record.reason})
    return record.outputs["vmfb"]


@dataclass(frozen=True, slots=True)
class _Sampling:
    executor: StageExecutor
    scratch: Path
    environment: Mapping[str, str]
    device: Device

    @property
    def duration_s(self) -> float:
        return _BLOCKS * self.executor.resolver.settings.protocol.block_s

    def benchmark(self, case: Case, found: Artifacts) -> tuple[str, ...]:
        resolver, data = self.executor.resolver, found.data
        return command_lines.sampled_argv(
            resolver.toolchain.tool("iree-benchmark-module"),
            "module.vmfb",
            command_lines.device_flags(self.device.uri, self.device.cpus),
            data.inputs(_recipe(found)),
            f"{self.duration_s:g}s",
            case.operation.function,
            [value for value, _ in data.parameters],
        )

    def record(self, perf: str, command: tuple[str, ...]) -> None:
        (self.scratch / _LIBRARIES).mkdir()
        argv = instructions.record_argv(perf, _SAMPLES, _FREQUENCY_HZ, command)
        libraries = {"TMPDIR": os.fspath((self.scratch / _LIBRARIES).absolute()), instructions.KEPT: "1"}
        outcome, stderr = self._run("record", argv, libraries, self.device.cpus)
        if outcome.failure or not (self.scratch / _SAMPLES).exists():
            facts = {"perf": perf, "found": reason_of(outcome, stderr) or "it ended without an error and wrote no file"}
            raise sampling.refused(stderr) or ToolError("perf record failed", facts, _BY_HAND)

    def output(self, name: str, argv: tuple[str, ...]) -> str:
        outcome, stderr = self._run(name, argv, {}, ())
        if outcome.failure:
            raise ToolError(f"{Path(argv[0]).name} failed", {"found": reason_of(outcome, stderr) or outcome.failure})
        return (self.scratch / f"{name}.stdout").read_text(errors="replace")

    def _run(
        self, name: str, argv: tuple[str, ...], variables: dict[str, str], cpus: tuple[int, ...]
    ) -> tuple[Outcome, str]:
        # perf keeps copies of libraries in the home directory, and starts objdump by its name.
        home = {"HOME": os.fspath(self.scratch.absolute()), "PATH": _search_path()}
        command = processes.Command(
            argv, self.scratch, {**self.environment, **home, **variables},
            stdout=f"{name}.stdout", stderr=f"{name}.stderr",
            time_limit_s=self.executor.limits.block_s, memory_limit_bytes=self.executor.limits.memory_bytes,
            output_limit_bytes=_OUTPUT_BYTES, cpus=cpus,
        )  # fmt: skip
        outcome = processes.run(command)
        return outcome, processes.shortened(self.scratch / f"{name}.stderr")

    def compared(self, objdump: str, built: Digest, own: Digest, kernel: str) -> tuple[bool | None, str]:
        """Compare a kernel's instructions in the module `built` with those in the case's own module, `own`.

        Returns (whether `own` contains the same instructions, the number of instructions as text). If they cannot be
        compared, returns (None, the reason)."""
        wanted = [code for text in self._disassembled(objdump, built) if (code := instructions.function(text, kernel))]
        if len(wanted) != 1:
            return None, f"{len(wanted)} functions of the new build have this name"
        mine = [instructions.everything(text) for text in self._disassembled(objdump, own)]
        if not any(mine):
            return None, "the case's own module has no machine code that objdump reads"
        return any(instructions.contains(code, wanted[0]) for code in mine), f"{len(wanted[0])} instructions"

    def _disassembled(self, objdump: str, module: Digest) -> list[str]:
        content = self.executor.store.checked(module).read_bytes()
        found = []
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".so"):
                    (self.scratch / "code.so").write_bytes(archive.read(name))
                    found.append(self.output("objdump", instructions.disassemble_argv(objdump, "code.so")))
        return found
