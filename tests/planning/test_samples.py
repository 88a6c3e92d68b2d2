"""The examples of errors in docs/specs.md are exactly what dispatchflow prints."""

import re
import shlex

import pytest
from support.project import REPOSITORY

from dispatchflow.cli import selection, variables
from dispatchflow.errors import DispatchflowError
from dispatchflow.project.workspace import Workspace

TEXT = (REPOSITORY / "docs/specs.md").read_text()
FIRST_SPEC = re.search(r"```toml\n# specs/small.toml\n(.*?)```", TEXT, re.DOTALL)
SAMPLES = [
    (command, shown) for command, shown in re.findall(r"```\n(?:\$ doit ([^\n]*)\n)?(doit: .*?)\n```", TEXT, re.DOTALL)
]
SWEEPS = {
    "unknown word 'dtpye'": 'm = 1\nn = 1\nk = 1\ndtpye = "f32"',
    "matmul needs a size for k": "m = 1\nn = 1",
    "not a size": 'm = "64-128"\nn = 1\nk = 1',
    "'shape' is empty": "shape = []",
    "double_tiling cannot be this": (
        'shape = "1x1x1"\ntuning = {family = "double_tiling", distribution = [64, 64], vector = [8, 16]}'
    ),
    "a sweep of 1,000,000,000 cases": 'm = "1:1000"\nn = "1:1000"\nk = "1:1000"',
}
"""A dict from the first line of an error to a sweep that causes this error.

For these errors, docs/specs.md does not show the command that causes them."""


@pytest.mark.parametrize(("command", "shown"), SAMPLES, ids=[shown.split("\n")[0] for _, shown in SAMPLES])
def test_errors_shown_in_the_docs_are_printed_exactly_as_shown(command, shown, tmp_path):
    assert FIRST_SPEC is not None
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/small.toml").write_text(FIRST_SPEC[1])
    sweep = SWEEPS.get(shown.partition("\n")[0].removeprefix("doit: ").rstrip(":"), "")
    (tmp_path / "x.toml").write_text(f'[[sweep]]\noperation = "matmul"\n{sweep}\n')
    words = shlex.split(command or "specs=x.toml")

    with pytest.raises(DispatchflowError) as caught:
        given = variables.parse(dict(word.split("=", 1) for word in words if "=" in word), ("cases", "run"))
        plan = Workspace(tmp_path, given).plan
        selection.select([word for word in words if ":" in word and "=" not in word], plan, (), ())

    assert f"doit: {caught.value}" == shown
