"""The differences between compiler releases in MLIR text and flags."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NEWEST = (999, 0)


@dataclass(frozen=True, slots=True)
class Release:
    """One compiler release, (major, minor), and how MLIR text and flags are written for it.

    `Target.since` is the first release that knows a target. cases/known_failures.toml lists the cases that a release
    fails to compile."""

    release: tuple[int, int] = _NEWEST

    @property
    def has_cpu_lowering_config(self) -> bool:
        """Whether `#iree_cpu.lowering_config` exists and may give only some of the four tiling levels.

        The attribute does not exist before 3.6, and 3.6 requires all four levels."""
        return self.release >= (3, 7)

    @property
    def generalizes_convolutions(self) -> bool:
        """Whether the compiler turns a named convolution into a generic op and drops its attributes.

        Seen with 3.9 and 3.10."""
        return self.release < (3, 11)

    def maps_of(self, op: str) -> bool:
        """Return whether a named linalg op (`matmul`) accepts the `indexing_maps` of column-major operands."""
        return self.release >= {"matmul": (3, 1), "batch_matmul": (3, 3)}.get(op, (0, 0))

    def packs(self, backend: str) -> bool:
        """Return whether the backend by default packs the operands of matrix products.

        The packing takes additional dispatches. Packing was seen with 20241104 and 3.0 to 3.7."""
        return backend in ("llvm-cpu", "vmvx") and self.release < (3, 8)

    @property
    def packs_in_global_opt(self) -> bool:
        """Whether the flag `--iree-global-opt-data-tiling` exists."""
        return self.release >= (3, 9)

    def cpu_pipeline(self, name: str) -> str:
        """Return the MLIR spelling of a pipeline: `#iree_cpu.pipeline<DoubleTilingExpert>`.

        Before 3.12, the spelling is `CPUDoubleTilingExpert`."""
        return f"#iree_cpu.pipeline<{name}>" if self.release >= (3, 12) else f"CPU{name}"

    @property
    def has_gpu_pipelines(self) -> bool:
        """Whether `#iree_gpu.pipeline<…>` and the intrinsics for Nvidia's `mma.sync` exist."""
        return self.release >= (3, 12)

    @property
    def reads_names(self) -> bool:
        """Whether the Python bindings can read the name in a location (`NameLoc`).

        Such names mark the places of a program that launch a dispatch."""
        return self.release >= (3, 12)

    @property
    def has_profiles(self) -> bool:
        """Whether the runtime records profiles, and `iree-profile` reads them."""
        return self.release >= (3, 12)

    def reads_tuning_spec(self, backend: str) -> bool:
        """Return whether the backend reads the file of `--iree-codegen-tuning-spec-path`.

        Any other backend ignores the flag. Seen with 3.9 to 3.13."""
        return {"rocm": True, "llvm-cpu": self.release >= (3, 11), "cuda": self.release < (3, 11)}.get(backend, False)

    def flag(self, newest: str) -> str:
        """Return this release's name of a flag, given its name in the newest release.

        Before 3.11, ROCm's flags are named after HIP."""
        return newest.replace("--iree-rocm-", "--iree-hip-") if self.release < (3, 11) else newest

    def __str__(self) -> str:
        if self.release < (3, 0):
            return "IREE before 3.0"
        return "the newest IREE" if self.release == _NEWEST else f"IREE {self.release[0]}.{self.release[1]}"


NEWEST = Release()


def syntax_of(version: str) -> Release:
    """Return the release for a `version` that `iree-compile --version` printed: `3.12.0rc20260917`.

    A date, `20241104.1068`, is older than 3.0. A version that is not a number counts as the newest release."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        return NEWEST
    major, minor = int(match[1]), int(match[2])
    return Release((2, 0) if major > 9999 else (major, minor))
