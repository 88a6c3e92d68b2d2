"""The keys of a module's steps depend on the content of weight files, not on the paths of these files."""

from dataclasses import replace

from dispatchflow.cases.module import File, Module, Parameters
from dispatchflow.engine import actions, module_actions
from dispatchflow.engine.actions import Call, Data
from dispatchflow.iree.targets import Device
from dispatchflow.timing.protocols import PROTOCOLS

CALL = Call("c" * 40, "main", Device("local-sync", 1, (0,), {"cpu": "x"}))
PLAIN = Data({"given": ("a" * 40,), "expected_0": ("b" * 40,)}, ("4xf32",))
WEIGHTS = replace(PLAIN, parameters=(("model=parameters_0.irpa", "d" * 40),))


def module(*weights: Parameters) -> Module:
    return Module(File("m.mlir", "0" * 40), "m", "main", parameters=weights)


def test_weights_enter_keys_by_content_scope_and_format_and_not_by_path():
    weights = Parameters("model", File("w.irpa", "d" * 40), ".irpa")
    key = module_actions.arguments(module(weights), ("4xf32",), "e" * 40).key
    moved = replace(weights, file=File("elsewhere/v.irpa", "d" * 40))
    assert module_actions.arguments(module(moved), ("4xf32",), "e" * 40).key == key
    for other in (
        replace(weights, file=File("w.irpa", "f" * 40)),
        replace(weights, scope="other"),
        replace(weights, ending=".gguf"),
    ):
        assert module_actions.arguments(module(other), ("4xf32",), "e" * 40).key != key
    assert module_actions.arguments(module(weights), ("4xf32",), "f" * 40).key != key  # the printed module differs


def test_without_weights_no_parameters_enter_the_keys():
    printed = [module_actions.arguments(module(), ("4xf32",), digest * 40) for digest in "ef"]
    assert printed[0].key == printed[1].key
    assert "parameters" not in printed[0].ingredients
    assert "parameters" not in actions.verification(CALL, PLAIN, "by element type").ingredients


def test_weights_enter_the_keys_of_calls_of_the_module():
    other = replace(PLAIN, parameters=(("model=parameters_0.irpa", "9" * 40),))
    for action in (
        lambda data: actions.verification(CALL, data, "by element type"),
        lambda data: actions.measurement(CALL, data.measured, PROTOCOLS["std"]),
        lambda data: module_actions.expected_from(CALL, data, ("4xf32",)),
    ):
        assert len({action(data).key for data in (PLAIN, WEIGHTS, other)}) == 3
    assert WEIGHTS.files("given") == {"given_0.bin": "a" * 40, "parameters_0.irpa": "d" * 40}
    assert set(WEIGHTS.objects) == {"a" * 40, "b" * 40, "d" * 40}
