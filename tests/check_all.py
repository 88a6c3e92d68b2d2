"""`doit check_all`: every operation × element type × layout × option × tuning that is no skip, compiled and verified.

The product of the registries as a spec in a directory of its own, made by dispatchflow itself: it shows progress, goes on
where it was stopped, makes again only what changed, and names every failure with its reason. CI takes a part of the same
product (`test_contract.COVERING`).
"""

from __future__ import annotations

import os
import sys
from itertools import cycle, islice

from real import DODO, REPOSITORY, sweep
from test_contract import RUN_HERE, SHAPES, SHAPES_OF, TUNING, chosen_of

from dispatchflow.operations import OPERATIONS

FOLDER = REPOSITORY / ".check_all"


def spec() -> str:
    """A sweep for each operation and each choice of its options."""
    return "\n".join(
        sweep(
            **dict.fromkeys(("m", "n", "k")),
            operation=name,
            shape=["x".join(map(str, islice(cycle(shape), len(cls.dims)))) for shape in SHAPES_OF.get(name, SHAPES)],
            dtype=list(cls.signatures),
            layout=list(cls.layouts),
            tuning=[tuning.name for tuning in TUNING],
            target=list(RUN_HERE),
            **dict(zip(cls.options, chosen, strict=True)),
        )
        for name, cls in OPERATIONS.items()
        for chosen in chosen_of(cls)
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
