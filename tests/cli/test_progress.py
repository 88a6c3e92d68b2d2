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
    progress._spoke_at -= 60
    progress.block(trial, 7)
    most = PROTOCOLS["fast"].blocks
    assert capsys.readouterr().out == f"7 {counted} still being measured; latest: 1 of {most} blocks of label done\n"
    progress._tasks = {"profile": 0}
    progress._live = SimpleNamespace(update=lambda task, advance, name: steps.append(advance))
    progress.block(trial, 7)
    assert steps == [ahead]
