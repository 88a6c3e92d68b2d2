"""Run the benchmarks on a quiet machine and print one table: `python -m benchmarks`.

`--only noop --cases 1000` runs only the benchmark `noop`, with 1000 cases."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks import false_positives, full_run, ninja, noop
from benchmarks.timing import CommandLine
from dispatchflow.timing.protocols import PROTOCOLS

SIZES = (1_000, 10_000, 100_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="may be repeated; default: all")
    parser.add_argument(
        "--cases", type=_tens, action="append", help=f"sizes of `noop` and `looks`, multiples of ten [{SIZES}]"
    )
    parser.add_argument("--pairs", type=_count, default=5)
    parser.add_argument("--compiles", type=_count, default=40, help="number of cases of `cold`")
    parser.add_argument("--measured", type=_count, default=12, help="number of cases of `full`")
    parser.add_argument("--protocol", choices=PROTOCOLS, default="std", help="protocol of `full`")
    parser.add_argument("--comparisons", type=_count, default=100, help="number of comparisons of `same`")
    options = parser.parse_args()
    parts = options.only or [*PARTS]
    if "noop" in parts and not Path(ninja.NINJA).exists():
        parser.exit(2, "noop compares with ninja, which is not installed here: pip install -e '.[dev]'\n")
    lines: list[CommandLine] = []
    with tempfile.TemporaryDirectory(prefix="dispatchflow-benchmark-") as name:
        for part in parts:
            for line in PARTS[part](Path(name), options):
                lines.append(line)
                print(
                    f"{line.what}: {line.ours}; {line.against} {'' if line.ratio is None else f'{line.ratio:.2f}'}",
                    flush=True,
                )
    print(f"\n{table(lines)}")


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text}: not a number above 0")
    return int(text)


def _tens(text: str) -> int:
    if _count(text) % 10:
        raise argparse.ArgumentTypeError(f"{text}: not a multiple of ten")
    return int(text)


def table(lines: Sequence[CommandLine]) -> str:
    """Return a Markdown table, like the one in docs/performance.md."""
    rows = [("what", "ours", "against", "ratio", "bar"), ("---",) * 5]
    rows += [
        (line.what, line.ours, line.against, "" if line.ratio is None else f"{line.ratio:.2f}", _bar(line))
        for line in lines
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _bar(line: CommandLine) -> str:
    return line.bar if line.held is None else f"{line.bar}: {'held' if line.held else 'MISSED'}"


def _noop(folder: Path, options: argparse.Namespace) -> Iterator[CommandLine]:
    for cases in options.cases or SIZES:
        yield from noop.noop(folder, cases, options.pairs)


def _looks(folder: Path, options: argparse.Namespace) -> Iterator[CommandLine]:
    yield from noop.looks(folder, options.cases[0] if options.cases else 10_000, options.pairs)


def _cold(folder: Path, options: argparse.Namespace) -> Iterator[CommandLine]:
    return full_run.cold(folder, options.compiles, options.pairs)


def _full(folder: Path, options: argparse.Namespace) -> Iterator[CommandLine]:
    return full_run.full(folder, options.measured, options.protocol)


def _same(folder: Path, options: argparse.Namespace) -> Iterator[CommandLine]:
    return false_positives.same(folder, options.comparisons)


PARTS: dict[str, Callable[[Path, argparse.Namespace], Iterator[CommandLine]]] = {
    "noop": _noop,
    "looks": _looks,
    "cold": _cold,
    "full": _full,
    "same": _same,
}

if __name__ == "__main__":
    main()
