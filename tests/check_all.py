"""`doit check_all`: every operation × element type × layout × tuning, and every option, that is no skip, compiled and verified.

The product of the registries as a spec in a directory of its own, made by dispatchflow itself: it shows progress, goes on
where it was stopped, makes again only what changed, and names every failure with its reason. CI takes a part of the same
product (`test_contract.COVERING`).
"""

from __future__ import annotations

import os
import sys
from itertools import cycle, islice
from typing import Any

from everything import EVERYTHING
from real import DODO, REPOSITORY, sweep

from dispatchflow.operations import OPERATIONS

FOLDER = REPOSITORY / ".check_all"


def spec() -> str:
    """A sweep for each operation, layout, tuning and choice of options; what of it is no case is a skip."""
    sweeps: dict[Any, tuple[dict[Any, None], ...]] = {}
    for name, types, layout, chosen, tuning, target, shape in EVERYTHING:
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


def main(words: list[str]) -> None:
    """`words` instead of `verify`: `-n 1 'verify:conv2d_*'`, `retry=yes verify`, `list skipped`."""
    (FOLDER / "specs").mkdir(parents=True, exist_ok=True)
    (FOLDER / "dodo.py").write_text(DODO)
    (FOLDER / "specs/everything.toml").write_text(spec())
    os.chdir(FOLDER)
    os.execv(sys.executable, [sys.executable, "-m", "doit", *(words or ["verify"])])


if __name__ == "__main__":
    main(sys.argv[1:])
