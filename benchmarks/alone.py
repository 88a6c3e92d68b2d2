r"""Compare the time of each dispatch alone with its time in a program.

    doit file=net.onnx threads=1 profile
    doit file=net.onnx threads=1 extract out=alone && sh alone/repro.sh compile
    python -m benchmarks.alone alone --program build/CASE/module.vmfb --function net \
        --input 1x3x224x224xf32=@build/CASE/given_0.bin

Each dispatch runs alone in a module of its own, with hot and with cold operands. All modules run on one thread, in
several rounds. Each round runs the modules in groups of six, and the program before each group. In each run, the 5th
percentile of a dispatch's executions is taken. The smallest of these values is used as the time of the dispatch. Other
work on the machine hardly changes this minimum."""

from __future__ import annotations

import argparse
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dispatchflow.cases.module import shape_of
from dispatchflow.microbenchmark import Input, Invocation, run
from dispatchflow.reports.table import markdown
from dispatchflow.verification.inputs import dtype_of

_LEAST_NS = 5_000
_CLOSE = 1.05
_PART = 6
_PROGRAM = ("program", "program again")
_ALONE = ("hot", "cold")
_KINDS = ("program again", *_ALONE)
_CHOSEN = ("the nearer of hot and cold", "the nearest time between hot and cold")

Times = Mapping[str, Mapping[str, float]]
"""The times of dispatches in ns, for each kind of run (`program`, `program again`, `hot`, `cold`).

For example, `times[name]["hot"]` is the time of the dispatch `name` with hot operands."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path, help="the folder that `doit extract` wrote, with compiled modules")
    parser.add_argument("--program", type=Path, required=True, help="the compiled module of the whole program")
    parser.add_argument("--function", required=True, help="the program's function to call")
    parser.add_argument("--input", action="append", default=[], help="an operand of this function; may be repeated")
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    given = [operand(text, Path()) for text in options.input]
    program = [Invocation(name, options.program, options.function, given) for name in _PROGRAM]
    print(report(measured(program, list(alone(options.bundle)), options.rounds)))


def alone(bundle: Path) -> Iterator[Invocation]:
    """Yield two invocations of each compiled module of a bundle: with hot and with cold operands."""
    for sweep in tomllib.loads((bundle / "sites.toml").read_text())["sweep"]:
        vmfb = (bundle / sweep["file"]).with_suffix(".vmfb")
        values = [operand(text, bundle) for text in sweep.get("inputs", ())]
        if vmfb.exists() and values:
            for kind in _ALONE:
                inputs = [Input(value, cold=kind == "cold" and isinstance(value, np.ndarray)) for value in values]
                yield Invocation(f"{vmfb.stem} {kind}", vmfb, "main", inputs)


def operand(text: str, folder: Path) -> Any:
    """Return the value of an operand such as `4x8xf32=@in0.bin` or `5`; files are relative to `folder`."""
    spelled, _, file = text.partition("=@")
    if not file:
        return float(spelled) if "." in spelled else int(spelled)
    shape = shape_of(spelled)
    assert shape is not None, f"{spelled} is no tensor of a known element type"
    sizes, element = shape
    return np.fromfile(folder / file, dtype_of(element)).reshape([-1 if size is None else size for size in sizes])


def measured(program: Sequence[Invocation], sites: Sequence[Invocation], rounds: int) -> Times:
    """Measure the program and the modules `sites`, and return the times.

    `sites` has the modules of single dispatches. `program` has the same program under two names. The names
    alternate from run to run, so that the report can compare the program with itself."""
    found: dict[str, dict[str, float]] = {}
    turns = cycle(program)
    for at in [*range(0, len(sites), _PART)] * rounds:
        for row in run([next(turns), *sites[at : at + _PART]]).to_pylist():
            if row["p5_ns"] is None:
                continue
            name = row["invocation"]
            kind = name if name in _PROGRAM else name.rpartition(" ")[2]
            times = found.setdefault(row["dispatch"], {})
            times[kind] = min(times.get(kind, row["p5_ns"]), row["p5_ns"])
    return found


def report(found: Times) -> str:
    """Return a table of the dispatches that take 5 µs or more, followed by lines that summarize it."""
    rows, apart = [], defaultdict[str, list[float]](list)
    for name, times in found.items():
        if not {*_PROGRAM, *_ALONE} <= times.keys() or times["program"] < _LEAST_NS:
            continue
        again, hot, cold = (times[kind] / times["program"] for kind in _KINDS)
        rows.append(
            {"dispatch": name, "program": f"{times['program'] / 1e3:.1f} µs"}
            | {kind: f"{ratio:.3f}" for kind, ratio in zip(_KINDS, (again, hot, cold), strict=True)}
        )
        nearer, between = min(hot, cold, key=_apart), sorted((hot, 1.0, cold))[1]
        for what, ratio in zip((*_KINDS, *_CHOSEN), (again, hot, cold, nearer, between), strict=True):
            apart[what].append(_apart(ratio))
    lines = [
        f"{what}: {median(each) - 1:.1%} from the program (median), within 5 %: "
        f"{sum(value <= _CLOSE for value in each)} of {len(each)}"
        for what, each in apart.items()
    ]
    return "\n".join([markdown(("dispatch", "program", *_KINDS), rows), "", *lines])


def _apart(ratio: float) -> float:
    return max(ratio, 1 / ratio)


if __name__ == "__main__":
    main()
