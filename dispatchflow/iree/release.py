"""What MLIR text and flags must look like for a compiler release: the one place that knows how they differ."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NEWEST = (999, 0)


@dataclass(frozen=True, slots=True)
class Release:
    """Of one release, (major, minor). How text and flags are written is asked here. Which targets it knows
    `Target.since` says; what it fails to compile is a known failure (cases/known_failures.toml), and is tried."""

    release: tuple[int, int] = _NEWEST

    @property
    def has_cpu_lowering_config(self) -> bool:
        """`#iree_cpu.lowering_config` with the levels that a request names. Before 3.6 there is no such attribute, and
        3.6 wants four levels of every configuration."""
        return self.release >= (3, 7)

    @property
    def generalizes_convolutions(self) -> bool:
        """Before 3.11 a named convolution becomes a generic op before dispatches are formed, without what was written
        on it. Seen with 3.9 and 3.10."""
        return self.release < (3, 11)

    def maps_of(self, op: str) -> bool:
        """Whether this named op of linalg takes `indexing_maps`, which say that an operand lies column by column."""
        return self.release >= {"matmul": (3, 1), "batch_matmul": (3, 3)}.get(op, (0, 0))

    def packs(self, backend: str) -> bool:
        """Whether this backend packs the operands of products unasked, in dispatches of their own. Seen with 20241104
        and 3.0 to 3.7."""
        return backend in ("llvm-cpu", "vmvx") and self.release < (3, 8)

    @property
    def packs_in_global_opt(self) -> bool:
        """`--iree-global-opt-data-tiling`. Before 3.9 data tiling has one path."""
        return self.release >= (3, 9)

    def cpu_pipeline(self, name: str) -> str:
        """`DoubleTilingExpert` as an attribute: an enumerator of its own before 3.12."""
        return f"#iree_cpu.pipeline<{name}>" if self.release >= (3, 12) else f"CPU{name}"

    @property
    def has_gpu_pipelines(self) -> bool:
        """`#iree_gpu.pipeline<…>`, with Nvidia's `mma.sync` among the intrinsics."""
        return self.release >= (3, 12)

    def reads_tuning_spec(self, backend: str) -> bool:
        """Whether this backend's pipelines read the file of `--iree-codegen-tuning-spec-path`; the others ignore it.
        All read a transform-dialect library. Seen with 3.9 to 3.13."""
        return {"rocm": True, "llvm-cpu": self.release >= (3, 11), "cuda": self.release < (3, 11)}.get(backend, False)

    def flag(self, newest: str) -> str:
        """A flag as this release calls it; before 3.11 AMD's are HIP's."""
        return newest.replace("--iree-rocm-", "--iree-hip-") if self.release < (3, 11) else newest

    def __str__(self) -> str:
        if self.release < (3, 0):
            return "IREE before 3.0"
        return "the newest IREE" if self.release == _NEWEST else f"IREE {self.release[0]}.{self.release[1]}"


NEWEST = Release()


def syntax_of(version: str) -> Release:
    """From what `iree-compile --version` says: `3.12.0rc20260917`; a date, `20241104.1068`, is older than 3.0. A build
    tree that says nothing is taken for the newest."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        return NEWEST
    major, minor = int(match[1]), int(match[2])
    return Release((2, 0) if major > 9999 else (major, minor))
