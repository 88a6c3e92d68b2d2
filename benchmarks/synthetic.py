"""Fill a store quickly with invented results of cases that would take days to measure.

The keys are real, and therefore dispatchflow finds all cases up to date. Tools cannot use the invented results.
Therefore only runs that start no tool can be timed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dispatchflow.engine.state import CaseState
from dispatchflow.keys import Digest, digest_of
from dispatchflow.operations import Operation
from dispatchflow.project.workspace import Workspace
from dispatchflow.results import publish
from dispatchflow.store.entries import Record
from dispatchflow.store.records import Records

DODO = "from dispatchflow import main\nmain()\n"
OWN = f'''\
import helper
{DODO.replace("main()", "")}
def task_check():
    """a task of the user's own"""
    return {{"actions": ["true"]}}

main()
'''
"""A dodo.py that has a task of the user's own, and imports `helper`, a module in the same directory."""
BLOCKS = 8
"""The number of blocks (benchmark processes) in each invented measurement.

Real measurements with the protocol `std` have at most 15 blocks."""

_TUNINGS = 10
_APPLIED = (
    "DoubleTilingExpert matmul<cache_parallel = [64, 64, 0], distribution = [64, 64, 0], "
    "vector_common_parallel = [8, 32, 0], vector_reduction = [0, 0, 1]> fill<vector_common_parallel = [8, 32]>"
)


def spec(cases: int) -> str:
    """Return a spec of `cases` cases: each shape has ten tunings. `cases` must be a multiple of ten."""
    tunings = ", ".join(f'"double_tiling_64x64_8x{8 * (i + 1)}x1"' for i in (0, 1, 3, 7))
    tunings += ", " + ", ".join(f'"double_tiling_{64 * i}x128_4x16x4"' for i in (1, 2, 3, 4))
    k, m = _factors(cases // _TUNINGS)
    return f"""\
[[sweep]]
operation = "matmul"
m = "1:{m}"
n = 128
k = "1:{k}"
threads = 1
tuning = ["default", "data_tiling", {tunings}]
"""


def _factors(count: int) -> tuple[int, int]:
    small = next(n for n in range(int(count**0.5), 0, -1) if count % n == 0)
    return small, count // small


class _Bulk(Records):
    """Adds all records (outcomes of stages) in one transaction, because many transactions are slow."""

    @contextmanager
    def _transaction(self, changes: bool = True) -> Iterator[None]:
        yield

    def in_one_transaction(self) -> Any:
        return super()._transaction()


def project(root: Path, cases: int) -> Path:
    """Set up a project whose store has invented results for all stages of its cases."""
    (root / "specs").mkdir(parents=True)
    (root / "dodo.py").write_text(DODO)
    (root / "specs/generated.toml").write_text(spec(cases))
    fill(Workspace(root, {}))
    return root


def fill(workspace: Workspace) -> None:
    """Add invented outcomes of all stages of all cases to a workspace's store, and write the cases' rows."""
    store = workspace.store
    shared = {name: store.put_bytes(name.encode()) for name in ("module", "vmfb", "configurations", "operand")}
    store.records = records = _Bulk(store.root / "records.sqlite")
    assert workspace.toolchain and workspace.resolver.host  # stores the facts about the machine
    rates = dict.fromkeys(("f32", "f64", "cache", "memory"), 1e12)
    with records.in_one_transaction():
        for case in workspace.plan.cases:
            _made(records, workspace, workspace.resolver.chain(case), shared)
            _verified(records, workspace, workspace.resolver.chain(case))
            (workspace.view_path / case.name).mkdir(parents=True)
        first = workspace.resolver.chain(workspace.plan.cases[0])
        records.remember(workspace.ceilings.name(first.case.target, first.device), json.dumps(rates))
        chains, protocol = workspace.chains(workspace.plan.cases), workspace.settings.protocol
        rows = publish.rows_of(
            chains, workspace.toolchain, protocol, workspace.run, workspace.plan.tags, workspace.ceilings,
            workspace.noisy_above,
        )  # fmt: skip
        publish.publish(store, workspace.run, protocol, rows)
        for row in rows:  # otherwise the next run would write the views
            name = row.chain.case.name
            records.set_latest(name, {}, {f"{name} {workspace.view_name}": row.identity})
    workspace.close()


def _add(records: Records, workspace: Workspace, action: Any, outputs: dict[str, Digest], facts: Any) -> None:
    records.add(Record(action.key, action.stage, True, None, outputs, facts, action.ingredients, 1.0, "earlier", 1e9))


def _made(records: Records, workspace: Workspace, chain: CaseState, shared: dict[str, Digest]) -> None:
    emit, compiled = chain["emit"].action, chain["compile"].action
    assert emit is not None and compiled is not None
    facts = {
        "compile_s": 0.5123456789, "compiler_peak_bytes": 123456789, "code_digest": digest_of(compiled.key.encode()),
        "code_bytes": 4321, "applied": _APPLIED,
    }  # fmt: skip
    if chain["emit"].pending:
        _add(records, workspace, emit, {"module": shared["module"]}, {})
    outputs = {name: shared[name] for name in ("vmfb", "configurations")}
    _add(records, workspace, compiled, outputs, facts)
    operation = chain.case.operation
    assert isinstance(operation, Operation)
    supplies = workspace.resolver.supplies
    if supplies.data(operation) is None:
        inputs, expected = supplies.inputs_action(operation), supplies.expected_action(operation)
        names = [f"{recipe}_{i}" for recipe in operation.recipes for i in range(len(operation.operands()))]
        _add(records, workspace, inputs, {name: digest_of(f"{name}{operation.label}".encode()) for name in names}, {})
        names = ["exact", "wide", "random_reference", "random_tolerance"]
        _add(records, workspace, expected, {name: digest_of(f"{name}{operation.label}".encode()) for name in names}, {})


def _verified(records: Records, workspace: Workspace, chain: CaseState) -> None:
    verify, profile = chain["verify"].action, chain["profile"].action
    assert verify is not None and profile is not None
    if not chain["profile"].pending:
        return
    rungs = {"exact": "equal", "random": "within bound"}
    runtime = {
        "runtime": workspace.toolchain.runtime_version, "runtime_digest": workspace.toolchain.runtime_digest,
    }  # fmt: skip
    verdict = {"verification": "within bound", "score": 0.05123456, "rungs": rungs} | runtime
    _add(records, workspace, verify, {}, verdict)
    conditions = {
        "load_1m": 0.12, "cpus_allowed": [0, 1], "governor": "performance", "steal_ticks": 0, "load_1m_end": 0.2,
        "cpus": list(chain.device.cpus), "toolchain": workspace.toolchain.version,
    } | runtime  # fmt: skip
    measurement = records.begin_measurement(profile.key, profile.ingredients, conditions, "earlier")
    typical = 1000.0 + int(profile.key[:4], 16)
    for number in range(BLOCKS):
        records.add_block(measurement, number, typical * (1 + number / 1000), typical * 0.9, 0.25)
    records.end_measurement(measurement, "measured", None, conditions)
