"""`doit check_all`: every operation × element type × layout × tuning, and every option, that is no skip, compiled and
verified, on llvm-cpu and vmvx; every operation × type × layout in a size of networks; and on Vulkan, where lavapipe is,
with the types that lavapipe computes with.

The product of the registries as a spec in a directory of its own, made by dispatchflow itself: it shows progress, goes on
where it was stopped, makes again only what changed, and names every failure with its reason. CI takes a part of the same
product (`test_contract.COVERING`).
"""

from __future__ import annotations

import os
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
    """A sweep for each operation, layout, tuning and choice of options; what of it is no case is a skip."""
    sweeps: dict[Any, tuple[dict[Any, None], ...]] = {}
    for name, types, layout, chosen, tuning, target, shape in product:
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
    """The exit code of `doit` in a project of these specs."""
    (folder / "specs").mkdir(parents=True, exist_ok=True)
    (folder / "dodo.py").write_text(DODO)
    for name, text in specs.items():
        (folder / f"specs/{name}.toml").write_text(text)
    command = [sys.executable, "-m", "doit", *(words or ["verify"])]
    return subprocess.run(command, cwd=folder, env=os.environ | variables).returncode


def main(words: list[str]) -> int:
    """`words` instead of `verify`: `-n 1 'verify:conv2d_*'`, `retry=yes verify`, `list skipped`."""
    code = run(FOLDER, {"everything": spec(), "large": spec(large())}, words, {})
    try:
        vulkan = lavapipe.environment(REPOSITORY / ".lavapipe")
    except lavapipe.Unavailable as error:
        print(f"nothing is run on Vulkan: {error}")
        return code
    return run(FOLDER / "vulkan", {"everything": spec(ON_VULKAN)}, words, vulkan) or code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
