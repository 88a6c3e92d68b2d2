"""`doit show` refuses `out=y.txt` before it runs the case: only .npy files and folders are valid."""

import pytest

from dispatchflow.cli.answer import answer
from dispatchflow.cli.command_line import read
from dispatchflow.errors import SpecError


@pytest.fixture
def problem(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def problem(out):
        with pytest.raises(SpecError) as error:  # there are no specs here, so that a valid `out=` is an error too
            answer(tmp_path, {}, read(["show", f"out={out}"]), None)
        return str(error.value)

    return problem


def test_show_writes_npy_files_and_folders_only(problem, tmp_path):
    for name in ("dodo.py", "LICENSE"):
        (tmp_path / name).touch()
    for out in ("y.txt", "made/y.npz", "dodo.py", "LICENSE"):
        assert problem(out) == (
            f"out={out} is neither a .npy file nor a folder\nWrite out=y.npy for the only result, or out=DIR for all."
        )
    assert not (tmp_path / "y.txt").exists()


@pytest.mark.parametrize("out", ["y.npy", "made/of", "v1.2/", "old.d"])
def test_a_npy_file_a_new_folder_and_an_old_one_are_taken(problem, tmp_path, out):
    (tmp_path / "old.d").mkdir()
    assert problem(out).startswith("there are no specs here")
