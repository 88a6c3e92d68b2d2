"""Simulate how often the intervals of medians are right: `python -m benchmarks.coverage`.

The command simulates measured times with several models of noise. It computes 95 % intervals from these times, and
prints a table. A cell has the percentage of intervals that are right. The number in brackets is the median
half-width of all intervals, right or wrong. docs/measurement.md shows such a table. The columns are:

- here: an interval is right if it contains the true median. The cell is empty if the noise differs between
  sessions (runs).
- ±: an interval is right if it contains the median of the next session
- anchored: like ±, but medians are corrected by the times of anchors, which are kernels that never change
- first ±: like the column ±, with the interval of a machine's first session
- first anchored: like the column anchored, with the interval of a machine's first session

The columns ± and anchored are for the interval of a session that has 12 earlier sessions. The option `--sessions` sets
this number."""

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
    """A model of the noise in the times that one machine measures. The noise is added to log(time)."""

    name: str
    noise: Noise
    """A function that yields a random deviation for each block (the time of one benchmark process)."""
    session_sd: float = 0.0
    """Standard deviation of the random part of log(time) that all times of a session (one run) share."""
    own_sd: float = 0.0
    """Standard deviation of the part of log(time) that is drawn for each case and anchor separately.

    This part is constant within a session, and differs between sessions."""
    slowed: float = 0.0
    """The fraction of sessions that other processes slow down.

    In a slow session, all times are longer: a number of up to 0.3 is added to each log(time)."""
    sensitivity: tuple[float, float] = (1.0, 1.0)
    """The range from which the case's sensitivity is drawn, once for each machine.

    The noise that all times of a session share is multiplied by the sensitivity before it is added to the case's
    log(time). For the anchors, this noise is added unchanged."""


def independent(sd: float) -> Noise:
    """Return normally distributed noise with the standard deviation `sd`, independent for each block."""

    def blocks(lot: random.Random) -> Iterator[float]:
        while True:
            yield lot.gauss(0, sd)

    return blocks


def correlated(rho: float, sd: float) -> Noise:
    """Return normally distributed noise in which consecutive blocks have the correlation `rho`."""

    def blocks(lot: random.Random) -> Iterator[float]:
        value = lot.gauss(0, sd)
        while True:
            yield value
            value = rho * value + lot.gauss(0, sd * sqrt(1 - rho * rho))

    return blocks


def bursts(part: float, most: float) -> Noise:
    """Return noise in which each block takes longer with the probability `part`.

    The logarithm of such a block's time grows by 0 to `most`, uniformly distributed. All blocks also have normally
    distributed noise with the standard deviation 0.003."""

    def blocks(lot: random.Random) -> Iterator[float]:
        while True:
            yield lot.gauss(0, 0.003) + (lot.uniform(0, most) if lot.random() < part else 0)

    return blocks


def two_speeds(part: float, slower: float, stay: int) -> Noise:
    """Return the noise of a machine that has two speeds, and is slow for the fraction `part` of the time.

    `slower` is log(slow time / fast time). After each block, the speed is drawn again with the probability 1/`stay`.
    The drawn speed is the slow one with the probability `part`."""

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
    Model("bursts: 30 % of blocks up to 20 % longer", bursts(0.3, 0.2)),
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
    """Simulate one machine. Yield the history, the case's times and the anchors' times of each session.

    There is one time for each block (benchmark process), in ns. The history has the anchors' times up to and including
    this session."""
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
    """Simulate machines, and return how often 95 % intervals of median times are right.

    For example, `{"here": 0.94, "here width": 0.02}` describes the column `here`: 94 % of its intervals are right, and
    the median half-width of all its intervals is 2 %. The top of this file explains the columns."""
    # The blocks of one session cannot show noise that is constant within a session. `here` is then left out.
    lot, centred = random.Random(seed), model.session_sd == model.own_sd == 0
    true_ns = 1e5 * exp(_centre(model)) if centred else None
    held: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}
    for _ in range(machines):
        simulated, before, earlier = machine(model, protocol, lot), None, list[tuple[str, float, float]]()
        # Session number `sessions` has that many earlier ones. Its interval is judged by the session after it.
        for number in range(sessions + 2):
            history, case, series = next(simulated)
            found, factor = summary(case), history.moment(series).factor
            assert factor
            now_measured = (log(factor), log(found.median_ns))
            assert found.ci_low_ns and found.ci_high_ns and found.half_width is not None
            if true_ns is not None:
                held.setdefault("here", []).append(found.ci_low_ns <= true_ns <= found.ci_high_ns)
                widths.setdefault("here", []).append(found.half_width)
            if number in (0, 1, sessions, sessions + 1):  # only these are judged, or judge the next one
                moment = history.moment(series, Felt(earlier, history.prior).by("case", now_measured))
                within = found.log_half_width
                assert moment.correction and within is not None
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
            earlier.append(("case", *now_measured))
    parts = {word: sum(values) / len(values) for word, values in held.items()}
    return parts | {f"{word} width": median(sorted(values)) for word, values in widths.items()}


def _centre(model: Model) -> float:
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
