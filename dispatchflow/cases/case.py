"""Dispatch × target × threads, with flags, provider and cache = Case; and its name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.cases.provider import call_text
from dispatchflow.cases.rotating_inputs import HOT
from dispatchflow.iree import flags as extra
from dispatchflow.iree.targets import Target
from dispatchflow.keys import digest_of
from dispatchflow.libraries.providers import IREE, LIBRARIES, Library
from dispatchflow.operations import Operation
from dispatchflow.tunings import Tuning
from dispatchflow.workload import Workload

_MAX_NAME_BYTES = 200


@dataclass(frozen=True)
class Case:
    """The unit that is compiled, verified and profiled. `threads` None: as many as the machine has cores; `flags`: of
    the compiler, beside those of target and tuning. A `provider` other than IREE brings its own code, and knows neither
    tuning nor flags: the default stands for them."""

    dispatch: Dispatch
    target: Target
    threads: int | None = None
    flags: extra.Flags = ()
    provider: str = IREE
    cache: str = HOT

    @property
    def operation(self) -> Workload:
        return self.dispatch.operation

    @property
    def tuning(self) -> Tuning:
        return self.dispatch.tuning

    @property
    def library(self) -> Library | None:
        """What computes it instead of IREE."""
        return None if self.provider == IREE else LIBRARIES[self.provider]

    @property
    def shape_name(self) -> str:
        return self.operation.shape_name

    def call(self) -> str:
        """The text of a library's call."""
        assert self.library is not None
        assert isinstance(self.operation, Operation)
        return call_text(self.library, self.operation)

    def __hash__(self) -> int:
        return hash(self.name)  # injective, and a string keeps its hash: that of all fields costs ten times as much

    @cached_property
    def name(self) -> str:
        """`matmul_512x512x512_f32t_f32t_f32t_default@llvm-cpu-1t`: injective, no `=`, `*` or white space."""
        threads = "" if self.threads is None else f"-{self.threads}t"
        cache = "" if self.cache == HOT else f"-{self.cache}"
        how = self.tuning.name if self.provider == IREE else self.provider
        what, where = f"{self.shape_name}_{how}{extra.label(self.flags)}", f"@{self.target.name}{threads}{cache}"
        if len(content := what.encode()) + len(where) > _MAX_NAME_BYTES:
            end = f"_{digest_of(content)}{where}"
            return content[: _MAX_NAME_BYTES - len(end)].decode(errors="ignore") + end
        return what + where
