"""A version number in cache keys must change if the source code that the number stands for changes."""

import ast
import json
from pathlib import Path

import pytest

import dispatchflow
from dispatchflow.cases import rotating_inputs
from dispatchflow.engine import actions
from dispatchflow.keys import digest_of
from dispatchflow.libraries.providers import HARNESS
from dispatchflow.timing.protocols import PROTOCOLS

PACKAGE = Path(dispatchflow.__file__).parent
GOLDEN = Path(__file__).parent.parent / "golden"
LINES = ("device_flags", "poisoned", "_local", "_allocator")
SOURCES = {
    "VERIFICATION": {
        **dict.fromkeys(f"verification/{name}.py" for name in ("verdict", "tolerances", "reference")),
        **dict.fromkeys(f"engine/{name}.py" for name in ("verify", "verify_module", "judgement", "repeatability")),
        "verification/module_data.py": ("tolerance", "_RTOL", "number_type", "number"),
        "iree/command_lines.py": ("run_argv", *LINES),
    },
    "PROTOCOLS": {"iree/command_lines.py": ("block_argv", *LINES), "iree/benchmark_output.py": None},
    "CONFIGURATION_CHECK": {"iree/configurations.py": None},
    "HARNESS": {"libraries/_harness.py": None},
    "rotating_inputs.VERSION": {"cases/rotating_inputs.py": None, "iree/rotation.py": None},
}
"""A dict from the name of a version number to the source code that the number stands for.

The code is a dict from a file to the names of definitions in it; None stands for the whole file."""
MESSAGES = {
    "VERIFICATION": "raise VERIFICATION if a verdict can change, else `pytest --golden=update`",
    "PROTOCOLS": "raise the protocols' versions if a time can change, else `pytest --golden=update`",
    "CONFIGURATION_CHECK": "raise it if the check can give another answer, else `pytest --golden=update`",
    "HARNESS": "raise it if a library's call or its time can change, else `pytest --golden=update`",
    "rotating_inputs.VERSION": "raise it if a call with cold inputs can change, else `pytest --golden=update`",
}


def outline(node):
    """Return a syntax tree as nested lists that are equal in all Python versions.

    Docstrings and positions are left out."""
    if isinstance(node, list):
        return [outline(each) for each in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: value for name, value in ast.iter_fields(node) if value not in (None, []) and name != "ctx"}
    if "body" in fields and isinstance(node.body, list):
        fields["body"] = [each for each in node.body if not _is_text(each)]
    return [type(node).__name__, {name: outline(value) for name, value in sorted(fields.items())}]


def _is_text(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _names(node):
    targets = getattr(node, "targets", None) or [getattr(node, "target", node)]
    return {getattr(target, "id", getattr(target, "name", None)) for target in targets}


def digest(sources, read):
    parts = {}
    for file, names in sources.items():
        body = [node for node in ast.parse(read(file)).body if not _is_text(node)]
        for name in names or ():
            assert any(name in _names(node) for node in body), f"{file} has no {name} any more: name its successor here"
        parts[file] = [outline(node) for node in body if names is None or _names(node) & set(names)]
    return digest_of(json.dumps(parts, sort_keys=True).encode())


def versions(read):
    numbers = {
        "VERIFICATION": actions.VERIFICATION,
        "PROTOCOLS": sorted(found.id for found in PROTOCOLS.values()),
        "CONFIGURATION_CHECK": actions.CONFIGURATION_CHECK,
        "HARNESS": HARNESS,
        "rotating_inputs.VERSION": rotating_inputs.VERSION,
    }
    return {name: {"number": numbers[name], "source": digest(files, read)} for name, files in SOURCES.items()}


def forgotten(found, known):
    """Return a message for each version number that stayed the same although its source code changed.

    `found` has the present numbers and digests of source code, and `known` has the earlier ones."""
    return [
        f"what {name} stands for has changed: {MESSAGES[name]}"
        for name in found
        if name in known
        and found[name]["number"] == known[name]["number"]
        and found[name]["source"] != known[name]["source"]
    ]


def _read(file):
    return (PACKAGE / file).read_text()


def test_source_does_not_change_without_its_number(golden, request):
    found = versions(_read)
    if request.config.getoption("--golden") != "update":
        known = json.loads((GOLDEN / "versions.json").read_text())
        assert not (messages := forgotten(found, known)), "\n".join(messages)
    golden("versions.json", json.dumps(found, indent=2) + "\n")


@pytest.mark.parametrize(
    ("file", "before", "after", "told"),
    [
        ("verification/verdict.py", "<=", "<", {"VERIFICATION"}),
        ("verification/module_data.py", "-0.6", "-0.5", {"VERIFICATION"}),
        (
            "iree/command_lines.py",
            '"--device_allocator=debug"',
            '"--device_allocator=none"',
            {"VERIFICATION", "PROTOCOLS"},
        ),
        ("iree/command_lines.py", "--benchmark_min_warmup_time", "--benchmark_min_warm", {"PROTOCOLS"}),
        ("iree/command_lines.py", "--strip-debuginfo", "--strip", set()),
        ("iree/configurations.py", "is not None", "is None", {"CONFIGURATION_CHECK"}),
        ("libraries/_harness.py", "perf_counter", "time", {"HARNESS"}),
        ("iree/rotation.py", "-2 *", "-3 *", {"rotating_inputs.VERSION"}),
        ("verification/verdict.py", '"""', '"""More words. ', set()),
        ("verification/verdict.py", "\nclass", "\n# A comment.\nclass", set()),
    ],
)
def test_a_source_change_is_reported_unless_its_version_number_changes(file, before, after, told):
    def changed(name):
        text = _read(name)
        assert name != file or before in text
        return text.replace(before, after, 1) if name == file else text

    was, now = versions(_read), versions(changed)
    assert {name for name in was if was[name] != now[name]} == told
    assert forgotten(now, was) == [
        f"what {name} stands for has changed: {MESSAGES[name]}" for name in was if name in told
    ]
    raised = {name: {**each, "number": "another"} for name, each in now.items()}
    assert forgotten(raised, was) == []
