"""A phase of the compiler is found by its name or number.

The time that each pass took is read from the compiler's output."""

from __future__ import annotations

import json

import pytest

from dispatchflow.errors import SpecError
from dispatchflow.iree import pass_times, phases
from dispatchflow.iree.phases import Phase

PHASES = [Phase(1, "input"), Phase(6, "flow"), Phase(10, "executable-targets")]


def test_phases_are_in_the_order_of_their_numbers() -> None:
    files = ["_stdin_.10.executable-targets.mlir", "net.v2.6.flow.mlir", "1.input.mlir", "notes.txt", "x.mlir"]
    assert list(phases.found(files)) == PHASES
    assert phases.found(files)[PHASES[1]] == "net.v2.6.flow.mlir"


@pytest.mark.parametrize("word", ("flow", "6", "6.flow", "6.flow.mlir"))
def test_a_phase_has_a_name_and_a_number(word: str) -> None:
    assert phases.named(word, PHASES, "from") == PHASES[1]


def test_an_unknown_phase_is_refused_with_all_and_the_nearest() -> None:
    with pytest.raises(SpecError, match="no phase 'flwo'") as caught:
        phases.named("flwo", PHASES, "to")
    assert caught.value.facts == {"given": "to=flwo", "phases": "input, flow, executable-targets"}
    assert caught.value.hint == "Did you mean 'flow'?"


def entry(name: str, seconds: float, *below: dict[str, object]) -> dict[str, object]:
    time = {"duration": seconds, "percentage": 0.0}
    return {"user": time, "wall": time, "name": name, "passes": [*below, {}]}


def test_the_time_of_a_pass_has_no_passes_below_it_and_drivers_are_left_out() -> None:
    analysis = entry("(A) CallGraph", 0.5)
    tree = [
        entry("'builtin.module' Pipeline", 6.0, entry("InlinerPass", 2.0, analysis), entry("CSEPass", 1.0)),
        entry("mlir::iree_compiler::detail::OpPipelineAdaptorPass", 3.0),
        entry("InlinerPass", 1.0),
        {**entry("Total", 10.0), "passes": []},
    ]
    text = f"a.mlir:1:1: warning: [\n{json.dumps(tree)[0]}\n{json.dumps(tree)[1:-1]}\n]\nmore"
    found = pass_times.parse(text)
    assert [(each.name, each.duration_s, each.share, each.executions) for each in found] == [
        ("InlinerPass", 2.5, 0.25, 2),
        ("CSEPass", 1.0, 0.1, 1),
        ("(A) CallGraph", 0.5, 0.05, 1),
    ]


def test_compiler_output_without_times_is_an_error() -> None:
    with pytest.raises(ValueError, match="no times"):
        pass_times.parse("warning\n")
