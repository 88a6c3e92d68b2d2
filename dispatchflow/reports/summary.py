"""Format the text at the end of a run: the table of cases and the summary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

from dispatchflow import units
from dispatchflow.cases.module import SAME_CODE
from dispatchflow.libraries.providers import IREE
from dispatchflow.mlir.attributes import closing, split
from dispatchflow.planning.plan import Skip
from dispatchflow.reports import noise
from dispatchflow.reports.comparability import believed, place, provider, right, unbeaten
from dispatchflow.reports.table import aligned
from dispatchflow.stages import MEASURED, NAMED

MAX_SHOWN = 50
ALL = "`doit report stage=verify` with the same words shows all"
_SHOWN_REASONS = 20

_HEADER = ["case", "verification", "median", "±here", "±", "GFLOP/s", "GB/s", "peak", "applied", "state"]
_RIGHT = [False, False, True, True, True, True, True, False, False, False]
# Levels of lowering configurations of CPUs, GPUs and SPIR-V, in the order in which they are shown.
_LEVELS = {
    "distribution": "",
    "workgroup": "",
    "tile_sizes": "",
    "cache_parallel": "cache ",
    "cache_reduction": "cache k ",
    "vector_common_parallel": "vector ",
    "subgroup": "subgroup ",
    "thread": "thread ",
    "vector_reduction": "k ",
    "reduction": "k ",
}
_AUXILIARY = ("fill", "pack", "unpack")


def table(rows: Sequence[Mapping[str, Any]], fresh: set[str], stale: Collection[str] = ()) -> str:
    """Return a table with one line per case.

    For more than `MAX_SHOWN` cases, the table has up to `MAX_SHOWN` failures and `MAX_SHOWN` fastest correct rows.
    `fresh` has the cases that were measured in this run. `stale` has the cases whose new measurement failed."""
    shown = list(rows)
    note = ""
    if len(rows) > MAX_SHOWN:
        failed = [row for row in rows if row["status"] == "failed"]
        shown = [*failed[:MAX_SHOWN], *islice(_fastest(rows), MAX_SHOWN)]
        note = f"\n{len(rows)} cases: shown are failures and each shape's fastest correct rows; `doit report` shows all"
    if not shown:
        return ""
    return aligned([_HEADER, *(_line(row, _when(row, fresh, stale)) for row in shown)], _RIGHT) + note


def _fastest(rows: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Group correct rows by `place` and provider, and yield each group's fastest rows (see `unbeaten`)."""
    # Shapes are examined as the caller iterates, because `right` reads a row's records and the caller shows only a few.
    shapes: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in filter(believed, rows):
        shapes.setdefault((row["shape"], row["target"], row["threads"], row.get("cache")), []).append(row)
    for members in shapes.values():
        places: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for row in filter(right, members):
            places.setdefault((*place(row), provider(row)), []).append(row)
        for alike in places.values():
            yield from unbeaten(alike)


def _line(row: Mapping[str, Any], when: str) -> list[str]:
    median = row.get("median_ns")
    return [
        row["case"],
        verification(row),
        "" if median is None else units.nanoseconds(median),
        half(row, "ci_low_ns", "ci_high_ns"),
        half(row, "later_low_ns", "later_high_ns"),
        units.giga(row.get("flops_per_s")),
        units.giga(row.get("bytes_per_s")),
        peak(row),
        _made_by(row),
        _state(row, when),
    ]


def verification(row: Mapping[str, Any]) -> str:
    """Return a row's verdict and score (largest error / tolerance), such as `within bound 0.05`."""
    word, score = str(row.get("verification")), row.get("score")
    if score is None or word in ("not compared", "not verified"):
        return word
    return f"{word} {score:.2g}" if score < 1 else f"{word} {score:.2f}" if score < 1e3 else f"{word} {score:.0e}"


def half(row: Mapping[str, Any], lowest: str, highest: str) -> str:
    """Return half of the width of an interval around the median, in percent of the median.

    `lowest` and `highest` are the names of the columns with the interval's ends."""
    low, high = row.get(lowest), row.get(highest)
    if low is None or high is None:
        return ""
    part = (high - low) / 2 / row["median_ns"]
    return f"{part:.1%}" if part < 1 else ">100%"


def peak(row: Mapping[str, Any]) -> str:
    """Return the cells `percent_of_peak` and `bound` of a row as text, such as `71% compute`."""
    part = row.get("percent_of_peak")
    return "" if part is None else f"{part:.0f}% {row['bound']}"


def applied(text: str | None) -> str:
    """Return the main op and its tile sizes in short form, such as `matmul 64x64 vector 4x16 k 4`.

    `text` is an applied configuration. If it has no tile sizes, return the name of its lowering pipeline."""
    found = list(_configured(text or ""))
    working = [op for op in found if op[0] not in _AUXILIARY] or found
    # The op with the most loops is the main op: a copy that pads, or an op that finishes a sum, has fewer. If two ops
    # have equally many, a named op is preferred to a `generic`.
    name, levels = max(working, key=lambda op: (_loops(op[1]), op[0] != "generic"), default=("", {}))
    words = [f"{word}{tiles}" for level, word in _LEVELS.items() if (tiles := _tiles(levels.get(level, "")))]
    return " ".join([name, *words]) if words else (text or "").partition(" ")[0]


def _configured(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (op, dict from tiling level to sizes as text) for each op in an applied configuration."""
    for match in re.finditer(r"(?<!\S)(\w+)<", text):
        entries = split(text[match.end() : closing(text, match.end() - 1)])
        yield match[1], {name: value for name, _, value in (entry.strip().partition(" = ") for entry in entries)}


def _loops(levels: Mapping[str, str]) -> int:
    sizes = [numbers for value in levels.values() for numbers in re.findall(r"\[([^][]*)\]", value)]
    return max((len(split(numbers)) for numbers in sizes), default=0)


def _tiles(level: str) -> str:
    """Return the tile sizes of one tiling level, without zeros: `64x64` for `[64, 64, 0]`."""
    lists = (re.findall(r"[1-9]\d*", numbers) for numbers in re.findall(r"\[([^][]*)\]", level))
    return " ".join("x".join(sizes) for sizes in lists if sizes)


def _made_by(row: Mapping[str, Any]) -> str:
    if row.get("provider") in (None, IREE):
        return applied(row.get("applied_configuration"))
    return f"{row['provider']} {row.get('runtime_version') or ''}".rstrip()


def _when(row: Mapping[str, Any], fresh: set[str], stale: Collection[str]) -> str:
    if row["case"] in stale:
        return "reused; measuring it again failed"
    if row.get("measured_with") not in (None, row.get("toolchain_version")):
        return f"same code as {row['measured_with']}"
    return "measured now" if row["case"] in fresh else "reused"


def _state(row: Mapping[str, Any], when: str) -> str:
    match row["status"]:
        case "measured":
            return when
        case "failed":
            return "failed"
        case "known failure" | "not measured" | "no device":
            return str(row["status"])
        case status:
            return f"{status.upper()}, {when}"


def summary(
    made: Mapping[str, int],
    fresh: set[str],
    rows: Sequence[Mapping[str, Any]],
    skips: Sequence[Skip],
    notes: Sequence[str],
    in_vain: int = 0,
    broken: Collection[str] = (),
    asked: Mapping[str, str] = MappingProxyType({}),
    fixed: Mapping[str, str] = MappingProxyType({}),
    stale: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the lines at the end of a run, with failures, notes and numbers of cases.

    Args:
        made: the number of successful executions of each stage.
        in_vain: the number of failed executions.
        asked: the last requested stage of each case.
        fixed: the cases whose known failure no longer occurs, each with the reason of the failure.
        stale: the cases whose new measurement failed, each with the reason."""
    lines = [f"note: {note}" for note in notes]
    standing: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        standing.setdefault(row["status"], []).append(row)
    failed = standing.get("failed", [])
    now = in_vain or broken or stale or any(row["case"] in fresh for row in failed)
    earlier = "" if now else " in an earlier run"
    lines += _by_reason(f"failed{earlier}", {row["case"]: row["reason"] for row in failed})
    lines += _by_reason("measuring again failed, the earlier measurement stands", stale, "the lines above show all")
    unrecorded = sorted(set(broken) - {row["case"] for row in failed})
    if unrecorded:
        lines.append(f"failed: an exception in dispatchflow, shown above ({_example(unrecorded[0], len(unrecorded))})")
    if failed:
        where = f"of the failed case are in build/{failed[0]['case']}/"
        where = where if len(failed) == 1 else "of a failed case are in build/CASE/"
        lines.append(f"logs and inputs {where}; retry=yes runs failed cases again even if nothing has changed")
    known = standing.get("known failure", [])
    lines += _by_reason("known failure", {row["case"]: row["known_failure"] for row in known})
    lines += _by_reason("no longer fails", fixed, "`doit known` with the same words shows all")
    absent = Counter(row["reason"] for row in standing.get("no device", ()))
    lines += [f"no device: {reason} ({units.count(n, 'case')}, not run)" for reason, n in absent.items()]
    # The table has only a word for a verdict, and `verify` prints no table, so reasons are listed here. If there are
    # many rows, only new cases and modules are examined, because each verdict must be read from its record.
    few = len(rows) <= MAX_SHOWN
    looked = [row for row in rows if few or row.get("operation") == "module" or row["case"] in fresh]
    called = [row for row in looked if asked.get(row["case"], "profile") in ("verify", "profile", "sites")]
    unsure = [row for row in called if _only_run(row) and row["case"] not in broken]
    same = {row["case"] for row in unsure if SAME_CODE in (row["reason"] or "")}
    if alone := [row["case"] for row in unsure if row["case"] not in same]:
        hint = f"{_example(alone[0], len(alone))}; give expected=, or a reference= that runs here"
        lines.append(f"not compared, because there is nothing to compare with: {hint}")
    if same:
        lines.append(f"not compared: {SAME_CODE}: {_example(min(same), len(same))}; name another target")
    doubted = [f"{row['verification']}: {row['case']}: {row['reason']}" for row in called if _doubted(row)]
    lines += doubted[:_SHOWN_REASONS]
    if len(doubted) > _SHOWN_REASONS:
        lines.append(f"and {len(doubted) - _SHOWN_REASONS} more; {ALL}")
    timed = [row for row in rows if asked.get(row["case"], "profile") in MEASURED]
    unsteady = {status: [row for row in timed if row["status"] == status] for status in ("suspect", "noisy")}
    suspect = [f"suspect: {row['case']}: {row['reason']}" for row in unsteady["suspect"]]
    lines += suspect[:_SHOWN_REASONS]
    if suspect:
        lines.append("remeasure=yes measures suspect cases and their ceilings again")
    if noisy := [row["case"] for row in unsteady["noisy"]]:
        lines.append(
            f"noisy (±here above 5%, or many blocks waited for a CPU): {_example(noisy[0], len(noisy))}; "
            "remeasure=noisy measures noisy cases again; protocol=thorough measures all selected cases for longer"
        )
        if told := noise.conditions([row for row in unsteady["noisy"] if row["case"] in fresh]):
            lines.append(told)
    for reason, n in Counter(skip.reason for skip in skips).most_common(_SHOWN_REASONS):
        example = next(skip.name for skip in skips if skip.reason == reason)
        lines.append(f"skipped: {reason} ({_example(example, n)})")
    stages = ", ".join(f"{count} {_DONE[stage]}" for stage, count in made.items() if count)
    bad = {*unrecorded, *stale, *(row["case"] for row in failed)}
    idle = "up to date" if rows and not bad else "nothing to do"  # a case with a recorded failure is not up to date
    done = {row["case"] for row in known} | bad
    reused = sum(row["case"] not in done and row["case"] not in fresh for row in rows)
    counts = {"reused": reused, f"failed{earlier}": len(bad), f"known failure{'s' * (len(known) > 1)}": len(known)}
    rest = ", ".join(f"{n:,} {word}" for word, n in counts.items() if n)
    skipped = f" (and {len(skips):,} skipped)" if skips else ""
    counted = "; ".join(filter(None, (rest, stages))) if stages or in_vain else f"{idle} ({rest})" if rest else idle
    lines.append(f"{units.count(len(rows), 'case')}{skipped}: {counted} in ")
    return "\n".join(lines)


def _by_reason(what: str, reasons: Mapping[str, str], rest_by: str = ALL) -> Iterator[str]:
    """Yield one line for each of the most frequent reasons, and a last line that counts the other reasons.

    `reasons` is a dict from a case to its reason. Each line begins with `what`. The last line ends with `rest_by`,
    which says how to list all reasons."""
    first: dict[str, tuple[str, str]] = {}
    for name, reason in reasons.items():
        first.setdefault(_kind(reason), (name, reason))
    kinds = Counter(map(_kind, reasons.values())).most_common()
    for kind, n in kinds[:_SHOWN_REASONS]:
        name, reason = first[kind]
        yield f"{what}: {reason} ({_example(name, n)})"
    if rest := kinds[_SHOWN_REASONS:]:
        yield f"{what}: {len(rest)} other reasons ({units.count(sum(n for _, n in rest), 'case')}); {rest_by}"


VALUE = re.compile(r"%[\w$.#:-]+(?: = )?|<[^<>]*(?:<[^<>]*>[^<>]*)*>|(?<=\")\(.*?(?:\)|…|$)")
"""A pattern for the parts of an MLIR diagnostic that depend on the program, such as types."""


def _kind(reason: str) -> str:
    # Failures with the same cause then have equal texts.
    return VALUE.sub("", reason)


def _only_run(row: Mapping[str, Any]) -> bool:
    """Return whether a user's module ran, but there was nothing to compare its results with."""
    ran = row.get("operation") == "module" and row["status"] not in ("failed", "known failure", "no device")
    return ran and row["verification"] == "not compared"


def _doubted(row: Mapping[str, Any]) -> bool:
    """Return whether the verdict of a row may mislead without an explanation."""
    if row["status"] in ("failed", "no device"):
        return False
    return row["verification"] == "mistrusted" or bool(re.search("stateful: |not deterministic: ", row["reason"] or ""))


_DONE = dict(zip(NAMED, ("emitted", "compiled", "verified", "measured", "with sites found"), strict=True))


def _example(name: str, count: int) -> str:
    return name if count == 1 else f"{count} cases, such as {name}"
