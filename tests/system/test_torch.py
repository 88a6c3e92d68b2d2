"""PyTorch modules are imported, verified against PyTorch's own results, and measured site by site."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from support import lavapipe
from support.project import REPOSITORY, Project

pytest_plugins = ["support.project"]
_LACKING = [name for name in ("torch", "iree.turbine") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.iree,
    pytest.mark.skipif(bool(_LACKING), reason=f"{' and '.join(_LACKING)} not installed: dispatchflow[torch]"),
]
GPT = Path(__file__).parent.parent / "data/gpt.py"
FILES = ["gpt.irpa", "gpt.mlir", "gpt.npz"]
DEMOTE = "flags=--iree-input-demote-f64-to-f32=true"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    project = Project.make(tmp_path_factory.mktemp("torch"))
    shutil.copy(GPT, project.root)
    outcome = project.doit("import", "file=gpt.py:make", "out=specs/ir/gpt.mlir")
    assert outcome.code == 0, str(outcome)
    printed = outcome.out.split("\n\n")
    (project.root / "specs/a.toml").write_text(printed[2] + "\nthreads = 1\n")
    return project, outcome.out


def rows(project, *words):
    outcome = project.doit(*words, "protocol=fast", "format=jsonl", "sites")
    assert outcome.code == 0, str(outcome)
    return [json.loads(line) for line in outcome.out.splitlines() if line.startswith("{")]


def test_the_printed_spec_verifies_the_module_against_pytorch(made):
    project, printed = made
    assert sorted(path.name for path in (project.root / "specs/ir").iterdir()) == FILES
    assert 'parameters = ["model=ir/gpt.irpa"]\ninputs = "@ir/gpt.npz:in*"  # 1x16xi64\n' in printed
    assert "--iree-input-demote-f64-to-f32=true" in printed
    outcome = project.doit("verify")
    assert outcome.code == 0, str(outcome)
    (case,) = (project.root / "build").glob("module_gpt_*/case.txt")
    assert "within bound" in case.read_text()


def test_locations_are_paths_of_modules_and_lines_of_the_users_file(made):
    text = (made[0].root / "specs/ir/gpt.mlir").read_text()
    for block in (0, 1):
        assert f'loc("blocks.{block}.attn.qkv/linear"' in text
        assert f'loc("blocks.{block}/add_1"' in text  # the second addition of its block
    assert 'loc("gpt.py":' in text
    assert str(made[0].root) not in text


def test_equal_executables_of_two_blocks_are_distinguished(made):
    found = rows(made[0])
    pairs = {}
    for row in found:
        if row["executions"] and row["operations"]:  # other sites transpose weights when the module is loaded
            pairs.setdefault(row["kernel"], []).append(" ".join(row["operations"]))
    both = {kernel: names for kernel, names in pairs.items() if len(names) > 1}
    assert len(both) >= 8, pairs
    for names in both.values():
        assert [n for n in names if "blocks.0" in n] and [n for n in names if "blocks.1" in n]
        assert not [n for n in names if "blocks.0" in n and "blocks.1" in n]
    scopes = {row["part"] for row in rows(made[0], "by=scope", "depth=2")}
    assert {"blocks.0", "blocks.1"} <= scopes, scopes


def test_a_torch_module_is_verified_on_vulkan_with_f64_demoted(made):
    try:
        vulkan = lavapipe.environment(REPOSITORY / ".lavapipe")
    except lavapipe.Unavailable as error:
        pytest.skip(f"no Vulkan here: {error}")
    outcome = made[0].doit("target=vulkan", DEMOTE, "verify", **vulkan)
    assert outcome.code == 0, str(outcome)
    assert "1 verified" in outcome.out


@pytest.mark.parametrize(
    ("function", "code", "problem"),
    (
        ("raises", 1, "raises() failed: ZeroDivisionError: division by zero (bad.py, line 4)"),
        ("number", 2, "number() returned a value of type int, where a torch.nn.Module must be"),
        ("nothing", 2, "nothing() returned None, not a pair"),
        ("decides", 1, "torch.export cannot trace bad.py: GuardOnDataDependentSymNode: "),
        ("other", 2, "bad.py has no function 'other'\nIts functions are: raises, number, nothing, decides."),
    ),
)
def test_a_failed_import_prints_one_message_and_leaves_the_earlier_files(made, function, code, problem, tmp_path):
    project = made[0].copy(tmp_path / "p")
    before = {path.name: path.read_bytes() for path in (project.root / "specs/ir").iterdir()}
    (project.root / "bad.py").write_text(BAD)
    outcome = project.doit("import", f"file=bad.py:{function}", "out=specs/ir/gpt.mlir")
    assert outcome.code == code, str(outcome)
    assert outcome.err.startswith(f"doit: {problem}"), outcome.err
    assert {path.name: path.read_bytes() for path in (project.root / "specs/ir").iterdir()} == before


BAD = """\
import torch

def raises():
    return 1 / 0

def number():
    return 3, ()

def nothing():
    pass

class Decides(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x

def decides():
    return Decides(), (torch.ones(3),)
"""
