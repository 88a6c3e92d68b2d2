"""Compile and verify combinations of all operations, types, layouts, options, tunings and targets.

The command is `doit check_all`. See docs/verification.md."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from support import lavapipe
from support.all_cases import EVERYTHING, ON_VULKAN
from support.product import large
from support.project import DODO, REPOSITORY, sweep

from dispatchflow.operations import OPERATIONS

FOLDER = REPOSITORY / ".check_all"


def spec(product: Iterable[tuple[Any, ...]] = EVERYTHING) -> str:
    """Return a spec whose sweeps together contain all combinations in `product`.

    `product` has tuples (operation, types, layout, options, tuning, target, shape)."""
    sweeps: dict[Any, tuple[dict[Any, None], ...]] = {}
    for name, types, layout, chosen, tuning, target, shape in product:
        # A sweep combines all its types, targets and shapes, so that the spec may have more cases than `product`.
        axes = sweeps.setdefault((name, layout, chosen, tuning), ({}, {}, {}))
        for axis, value in zip(axes, (types, target, shape), strict=True):
            axis[value] = None
    return "\n".join(
        sweep(
            **dict.fromkeys(("m", "n", "k")),
            operation=name,
            shape=["x".join(map(str, islice(cycle(shape), len(OPERATIONS[name].dims)))) for shape in shapes],
            dtype=list(types),
            layout=layout,
            tuning=tuning,
            target=list(targets),
            **dict(zip(OPERATIONS[name].options, chosen, strict=True)),
        )
        for (name, layout, chosen, tuning), (types, targets, shapes) in sweeps.items()
    )


def run(folder: Path, specs: dict[str, str], words: list[str], variables: dict[str, str]) -> int:
    """Run `doit` with the arguments `words` in a project with these specs; return the exit code.

    If `words` is empty, `doit verify` runs. `specs` maps a file's name without `.toml` to its text. `variables` are
    added to the environment."""
    (folder / "specs").mkdir(parents=True, exist_ok=True)
    (folder / "dodo.py").write_text(DODO)
    for name, text in specs.items():
        (folder / f"specs/{name}.toml").write_text(text)
    command = [sys.executable, "-m", "doit", *(words or ["verify"])]
    with subprocess.Popen(command, cwd=folder, env=os.environ | variables) as child:
        try:
            return child.wait()
        finally:
            child.terminate()  # without effect if the child has ended


def main(words: list[str]) -> int:
    """Run `doit` with the arguments `words` on llvm-cpu and vmvx, then on Vulkan; return the exit code.

    Vulkan is left out if the driver lavapipe is unavailable. If `words` is empty, `doit verify` runs. An example of
    arguments is `-n 1 'verify:conv2d_*'`."""
    code = run(FOLDER, {"everything": spec(), "large": spec(large())}, words, {})
    try:
        vulkan = lavapipe.environment(REPOSITORY / ".lavapipe")
    except lavapipe.Unavailable as error:
        print(f"nothing is run on Vulkan: {error}")
        return code
    return run(FOLDER / "vulkan", {"everything": spec(ON_VULKAN)}, words, vulkan) or code


if __name__ == "__main__":
    # SIGTERM ends the child too (see `run`).
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))
