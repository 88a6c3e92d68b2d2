from dispatchflow.cli.variables import parse
from dispatchflow.engine.settings import Settings
from dispatchflow.project.settings import settings
from dispatchflow.timing.protocols import PROTOCOLS, shortened
from dispatchflow.tools.limits import Limits


def test_settings_are_the_given_values_or_the_defaults():
    assert settings({}) == Settings(PROTOCOLS["std"], "on", None, False)
    values = parse({"protocol": "fast", "verify": "off", "remeasure": "3", "retry": "yes"}, ("run",))
    assert settings(values) == Settings(PROTOCOLS["fast"], "off", 3, True)


def test_measurements_of_tests_are_short_and_have_no_pauses_and_the_same_keys(monkeypatch):
    monkeypatch.setenv("DISPATCHFLOW_TESTS_SHORT_MEASUREMENTS", "1")
    short, fast = settings({"protocol": "fast"}).protocol, PROTOCOLS["fast"]
    assert short == shortened(fast) and fast.pauses and not short.pauses
    assert (short.pause_s, short.block_s, short.blocks, short.id) == (0, fast.block_s / 4, fast.blocks, fast.id)


def test_limits_are_the_given_ones_and_the_machine_s_memory():
    assert settings({}, 5).limits == Limits(300, 120, 300, 5)
    values = {"compile_limit": 1.0, "run_limit": 2.0, "block_limit": 3.0, "memory_limit": None}
    assert settings(values, 5).limits == Limits(1, 2, 3, None)
    assert settings({"memory_limit": 4}, 5).limits == Limits(memory_bytes=4, memory_asked=True)
