"""How often the stated intervals are true, simulated: `python -m benchmarks.coverage` prints docs/measurement.md's table.

Sessions of a machine are simulated block by block under models of noise; the project's own statistics say the intervals.
Each machine has a history of sessions, and one of it alone (`first`). `here`: the interval within the session holds what
the session's blocks are spread about. `±`: the interval of another session holds the next session's median; `anchored`:
that of anchored medians, where it is stated, the next anchored one. All are nominally 95 %.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, log, sqrt

from dispatchflow.measurement.anchors import History
from dispatchflow.reports.table import markdown
from dispatchflow.timing.protocols import PROTOCOLS, Protocol
from dispatchflow.timing.sensitivity import Felt
from dispatchflow.timing.statistics import median, summary

Noise = Callable[[random.Random], Iterator[float]]
ANCHORS = {"compute": 1e6, "read": 1e4}


@dataclass(frozen=True)
class Model:
    """`noise`: logarithms of a session's blocks, about 0. `session_sd`, `own_sd`: of the factor that all share in a
    session, and of each case's and anchor's own. `slowed`: the part of sessions that others slow, by up to 30 %. Cases
    feel what is shared by a factor between the two of `sensitivity`."""

    name: str
    noise: Noise
    session_sd: float = 0.0
    own_sd: float = 0.0
    slowed: float = 0.0
    sensitivity: tuple[float, float] = (1.0, 1.0)


def independent(sd: float) -> Noise:
    def blocks(lot: random.Random) -> Iterator[float]:
        while True:
            yield lot.gauss(0, sd)

    return blocks


def correlated(rho: float, sd: float) -> Noise:
    def blocks(lot: random.Random) -> Iterator[float]:
        value = lot.gauss(0, sd)
        while True:
            yield value
            value = rho * value + lot.gauss(0, sd * sqrt(1 - rho * rho))

    return blocks


def bursts(part: float, most: float) -> Noise:
    """Blocks of which this part takes up to so much longer."""

    def blocks(lot: random.Random) -> Iterator[float]:
        while True:
            yield lot.gauss(0, 0.003) + (lot.uniform(0, most) if lot.random() < part else 0)

    return blocks


def two_speeds(part: float, slower: float, stay: int) -> Noise:
    """Slower in this part of the time, for so many blocks on average."""

    def blocks(lot: random.Random) -> Iterator[float]:
        slow = lot.random() < part
        while True:
            yield lot.gauss(0, 0.003) + (slower if slow else 0)
            if lot.random() < 1 / stay:
                slow = lot.random() < part

    return blocks


MODELS = (
    Model("independent, 1 %", independent(0.01)),
    Model("independent, 3 %", independent(0.03)),
    Model("correlated, ρ = 0.5, 1 %", correlated(0.5, 0.01)),
    Model("correlated, ρ = 0.9, 1 %", correlated(0.9, 0.01)),
    Model("correlated, ρ = 0.9, 3 %", correlated(0.9, 0.03)),
    Model("bursts: 30 % up to 20 % longer", bursts(0.3, 0.2)),
    Model("two speeds: 20 % slower 30 % of the time, 5 blocks", two_speeds(0.3, 0.2, 5)),
    Model("two speeds: 20 % slower 30 % of the time, 20 blocks", two_speeds(0.3, 0.2, 20)),
    Model("sessions 2 % apart, 0.7 % each", independent(0.01), 0.02, 0.007),
    Model("sessions 3 % apart, 1.5 % each", independent(0.01), 0.03, 0.015),
    Model("sessions 5 % apart, 1 % each, ρ = 0.5", correlated(0.5, 0.01), 0.05, 0.01),
    Model("30 % of sessions slowed, cases feel 0 to 3 of it", independent(0.01), 0.01, 0.01, 0.3, (0.0, 3.0)),
)


def machine(
    model: Model, protocol: Protocol, lot: random.Random
) -> Iterator[tuple[History, list[float], dict[str, list[float]]]]:
    """Sessions of one machine: the history with this one, a case's blocks and the anchors', all of it in ns."""
    history, number, sensitivity = History(), 0, lot.uniform(*model.sensitivity)
    while True:
        shared = lot.gauss(0, model.session_sd) + (lot.uniform(0, 0.3) if lot.random() < model.slowed else 0)
        series = {}
        for name, ns in {**ANCHORS, "case": 1e5}.items():
            own, noise = lot.gauss(0, model.own_sd), model.noise(lot)
            felt = shared * (sensitivity if name == "case" else 1)
            series[name] = [ns * exp(felt + own + next(noise)) for _ in range(protocol.blocks)]
        case = series.pop("case")
        history = history.with_session(str(number), series)
        number += 1
        yield history, case, series


def coverage(model: Model, protocol: Protocol, machines: int, sessions: int, seed: int = 1) -> dict[str, float]:
    """Parts of 1 of intervals that held, of first sessions (`first`) and of those after `sessions` others; and the
    half-widths, as medians."""
    lot, centred = random.Random(seed), model.session_sd == model.own_sd == 0
    true_ns = 1e5 * exp(_centre(model)) if centred else None
    held: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}
    for _ in range(machines):
        simulated, before, earlier = machine(model, protocol, lot), None, list[tuple[str, float, float]]()
        for number in range(sessions + 2):
            history, case, series = next(simulated)
            found, moment = summary(case), history.moment(series, Felt(earlier, history.prior).by("case"))
            assert found.ci_low_ns and found.ci_high_ns and found.half_width is not None
            assert moment.factor and moment.correction
            earlier.append(("case", log(moment.factor), log(found.median_ns)))
            within = found.log_half_width
            assert within is not None
            now = {"±": found.median_ns, "anchored": found.median_ns / moment.correction}
            if before is not None and number in (1, sessions + 1):
                for which, (ns, half) in before.items():
                    if half is None:
                        continue
                    word = f"first {which}" if number == 1 else which
                    held.setdefault(word, []).append(ns * exp(-half) <= now[which] <= ns * exp(half))
                    widths.setdefault(word, []).append(half)
            before = {
                "±": (now["±"], moment.later(within)),
                "anchored": (now["anchored"], moment.later_anchored(within)),
            }
            if true_ns is not None:
                held.setdefault("here", []).append(found.ci_low_ns <= true_ns <= found.ci_high_ns)
                widths.setdefault("here", []).append(found.half_width)
    parts = {word: sum(values) / len(values) for word, values in held.items()}
    return parts | {f"{word} width": median(sorted(values)) for word, values in widths.items()}


def _centre(model: Model) -> float:
    """The median of the blocks of very many sessions."""
    lot = random.Random(0)
    return median(sorted(next(model.noise(lot)) for _ in range(40_001)))


WORDS = ("here", "first ±", "±", "first anchored", "anchored")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=600)
    parser.add_argument("--sessions", type=int, default=12, help="before the one that is judged by its history")
    parser.add_argument("--protocol", choices=PROTOCOLS, action="append")
    options = parser.parse_args()
    rows = []
    for name in options.protocol or ("fast", "std"):
        for model in MODELS:
            found = coverage(model, PROTOCOLS[name], options.machines, options.sessions)
            cells = {word: f"{found[word]:.0%} (± {found[f'{word} width']:.1%})" for word in WORDS if word in found}
            rows.append({"protocol": name, "noise": model.name, **cells})
    print(markdown(("protocol", "noise", *WORDS), rows))


if __name__ == "__main__":
    main()
