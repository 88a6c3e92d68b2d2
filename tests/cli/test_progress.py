"""The progress bar counts blocks (benchmark processes) of cases, but not of calibration kernels."""

from types import SimpleNamespace

import pytest

from dispatchflow.cli.progress import Progress
from dispatchflow.measurement.ceilings import _KernelTrial
from dispatchflow.measurement.trials import LibraryTrial, Trial
from dispatchflow.stages import STAGES
from dispatchflow.timing.protocols import PROTOCOLS


@pytest.mark.parametrize(
    ("kind", "counted", "ahead"),
    [(Trial, "cases", 1), (LibraryTrial, "cases", 1), (_KernelTrial, "calibration kernels", 0)],
)
def test_only_blocks_of_cases_advance_the_bar(kind, counted, ahead, capsys):
    trial = kind("key", "label", {}, (), None, {}, PROTOCOLS["fast"], blocks_ns=[1.0])
    progress, steps = Progress(dict.fromkeys(STAGES, 0)), []
    progress.measuring(7, PROTOCOLS["fast"].blocks)
    progress._spoke_at -= 60
    capsys.readouterr()
    progress.block(trial, 7)
    share = f"; 1 of {7 * PROTOCOLS['fast'].blocks} blocks done" if ahead else ""
    assert capsys.readouterr().out == f"7 {counted} still being measured{share}\n"
    progress._tasks = {"profile": 0}
    progress._live = SimpleNamespace(update=lambda task, advance, name: steps.append(advance))
    progress.block(trial, 7)  # a block that must be taken again
    trial.blocks_ns.append(1.0)
    progress.block(trial, 7)
    trial.outcome = "measured"
    progress.block(trial, 6)
    assert steps == [0, ahead, ahead * (PROTOCOLS["fast"].blocks - 2)]
