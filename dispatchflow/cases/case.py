"""Define the case: an operation or a user's module, and how it is compiled and run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.cases.provider import LibraryProgram, program_of
from dispatchflow.cases.rotating_inputs import HOT
from dispatchflow.iree import flags as extra
from dispatchflow.iree.targets import Target
from dispatchflow.keys import digest_of
from dispatchflow.libraries.providers import IREE, LIBRARIES, Library
from dispatchflow.tunings import Tuning
from dispatchflow.workload import Workload

_MAX_NAME_BYTES = 200


@dataclass(frozen=True)
class Case:
    """The unit that is compiled, verified and profiled. A row in the results is about one case."""

    dispatch: Dispatch
    target: Target
    threads: int | None = None
    """The number of threads; None for one thread per core of the machine."""
    flags: extra.Flags = ()
    """Compiler flags in addition to those of the target and the tuning."""
    provider: str = IREE
    """`iree`, or a library such as `numpy` that computes the case. A library uses no tuning and no flags."""
    cache: str = HOT
    """`hot`: all calls get the same inputs; `cold`: each call gets copies that are not in the caches."""

    @property
    def operation(self) -> Workload:
        return self.dispatch.operation

    @property
    def tuning(self) -> Tuning:
        return self.dispatch.tuning

    @property
    def library(self) -> Library | None:
        """The library that computes the case; None for IREE."""
        return None if self.provider == IREE else LIBRARIES[self.provider]

    @property
    def packages(self) -> dict[str, str]:
        """The Python packages that the case needs, as a dict from package to the command that installs it."""
        needed = dict.fromkeys(self.operation.packages, "pip install 'dispatchflow[onnx]'")
        return needed if self.library is None else {**needed, self.provider: self.library.install}

    @property
    def shape_name(self) -> str:
        return self.operation.shape_name

    @cached_property
    def library_program(self) -> LibraryProgram | None:
        """The program with which a library computes the case; None for IREE."""
        return None if self.library is None else program_of(self.library, self.operation)

    def __hash__(self) -> int:
        return hash(self.name)  # names are unique and their hash is cached; hashing all fields costs ten times as much

    @cached_property
    def name(self) -> str:
        """The name of the case, without `=`, `*` or white space; different cases have different names.

        Example: `matmul_512x512x512_f32t_f32t_f32t_default@llvm-cpu-1t`. A name has at most 200 bytes. To
        keep this limit, a digest replaces the end of the part before `@`."""
        threads = "" if self.threads is None else f"-{self.threads}t"
        cache = "" if self.cache == HOT else f"-{self.cache}"
        how = self.tuning.name if self.provider == IREE else self.provider
        what, where = f"{self.shape_name}_{how}{extra.label(self.flags)}", f"@{self.target.name}{threads}{cache}"
        if len(content := what.encode()) + len(where) > _MAX_NAME_BYTES:
            end = f"_{digest_of(content)}{where}"
            return content[: _MAX_NAME_BYTES - len(end)].decode(errors="ignore") + end
        return what + where
