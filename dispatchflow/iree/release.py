"""The differences between compiler releases in MLIR text and flags."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NEWEST = (999, 0)


@dataclass(frozen=True, slots=True)
class Release:
    """A compiler release, and how MLIR text and flags are written for it.

    The field `release` is the pair (major, minor). Two differences between releases are not in this class:
    `Target.since` is the first release that knows a target, and the file cases/known_failures.toml lists the cases that
    a release fails to compile."""

    release: tuple[int, int] = _NEWEST

    @property
    def has_cpu_lowering_config(self) -> bool:
        """True if `#iree_cpu.lowering_config` may leave out some tiling levels."""
        # In 3.6 the attribute must give all four tiling levels; before 3.6 it does not exist.
        return self.release >= (3, 7)

    @property
    def generalizes_convolutions(self) -> bool:
        """True if the compiler turns a named convolution into a generic op and drops its attributes.

        IREE 3.9 and 3.10 were seen to do this."""
        return self.release < (3, 11)

    def maps_of(self, op: str) -> bool:
        """Return whether a named linalg op, such as `matmul`, accepts `indexing_maps`.

        With `indexing_maps`, the op can have column-major operands."""
        return self.release >= {"matmul": (3, 1), "batch_matmul": (3, 3)}.get(op, (0, 0))

    def packs(self, backend: str) -> bool:
        """Return whether the backend by default packs the operands of matrix products.

        The packing takes additional dispatches. Packing was seen with IREE 3.0 to 3.7 and a release before 3.0."""
        return backend in ("llvm-cpu", "vmvx") and self.release < (3, 8)

    @property
    def packs_in_global_opt(self) -> bool:
        """True if the flag `--iree-global-opt-data-tiling` exists."""
        return self.release >= (3, 9)

    def cpu_pipeline(self, name: str) -> str:
        """Return the MLIR spelling of a pipeline, such as `#iree_cpu.pipeline<DoubleTilingExpert>`.

        Before 3.12, the spelling of this pipeline is `CPUDoubleTilingExpert`."""
        return f"#iree_cpu.pipeline<{name}>" if self.release >= (3, 12) else f"CPU{name}"

    @property
    def has_gpu_pipelines(self) -> bool:
        """True if `#iree_gpu.pipeline<…>` and the intrinsics for Nvidia's `mma.sync` exist."""
        return self.release >= (3, 12)

    @property
    def reads_names(self) -> bool:
        """True if the Python bindings can read the name in a location (`NameLoc`).

        dispatchflow gives such names to the places of a program that launch a dispatch."""
        return self.release >= (3, 12)

    @property
    def has_profiles(self) -> bool:
        """True if the runtime can record profiles, which the tool `iree-profile` reads."""
        return self.release >= (3, 12)

    def reads_tuning_spec(self, backend: str) -> bool:
        """Return whether the backend reads the file that `--iree-codegen-tuning-spec-path` names.

        A backend that does not read the file ignores the flag. This was seen with IREE 3.9 to 3.13."""
        return {"rocm": True, "llvm-cpu": self.release >= (3, 11), "cuda": self.release < (3, 11)}.get(backend, False)

    def flag(self, newest: str) -> str:
        """Return this release's name of a flag. `newest` is the flag's name in the newest release.

        Before 3.11, ROCm's flags begin with `--iree-hip-`, not with `--iree-rocm-`."""
        return newest.replace("--iree-rocm-", "--iree-hip-") if self.release < (3, 11) else newest

    def __str__(self) -> str:
        if self.release < (3, 0):
            return "IREE before 3.0"
        return "the newest IREE" if self.release == _NEWEST else f"IREE {self.release[0]}.{self.release[1]}"


NEWEST = Release()


def syntax_of(version: str) -> Release:
    """Return the release for a `version` that `iree-compile --version` printed: `3.12.0rc20260917`.

    A version that is a date, such as `20241104.1068`, is older than 3.0. A version that does not begin with a number
    counts as the newest release."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        return NEWEST
    major, minor = int(match[1]), int(match[2])
    return Release((2, 0) if major > 9999 else (major, minor))
