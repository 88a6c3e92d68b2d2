"""`doit import` refuses wrong files and missing packages before it runs code of the user."""

import pytest

from dispatchflow.errors import DispatchflowError, SpecError
from dispatchflow.models import _import_torch
from dispatchflow.project import torch_import
from dispatchflow.tools.limits import DEFAULT


def test_the_function_is_make_if_none_is_named(tmp_path):
    (tmp_path / "gpt.py").touch()
    assert torch_import.source_of(f"{tmp_path}/gpt.py") == (tmp_path / "gpt.py", "make")
    assert torch_import.source_of(f"{tmp_path}/gpt.py:small") == (tmp_path / "gpt.py", "small")


@pytest.mark.parametrize(
    ("word", "problem", "hint"),
    (
        ("gp.py", "there is no file", "Did you mean 'gpt.py'?"),
        ("net.onnx", "import takes a Python file", "need no import"),
    ),
)
def test_another_file_is_refused(word, problem, hint, tmp_path):
    (tmp_path / "gpt.py").touch()
    with pytest.raises(SpecError, match=problem) as caught:
        torch_import.source_of(f"{tmp_path}/{word}")
    assert hint in caught.value.hint


def test_the_file_to_write_ends_with_mlir(tmp_path):
    with pytest.raises(SpecError, match=r"must end with \.mlir"):
        torch_import.imported(tmp_path / "gpt.py", "make", tmp_path / "gpt.txt", DEFAULT)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_import_leaves_no_folder_that_it_created(tmp_path):
    for folder, code in (("new/deeper", "def other(): pass"), ("new", "exit(3)")):
        (tmp_path / "gpt.py").write_text(code)
        with pytest.raises(DispatchflowError):
            torch_import.imported(tmp_path / "gpt.py", "make", tmp_path / folder / "gpt.mlir", DEFAULT)
        assert [path.name for path in tmp_path.iterdir()] == ["gpt.py"]


@pytest.mark.parametrize(("lacking", "name"), (("torch", "torch"), ("iree.turbine", "iree-turbine")))
def test_a_package_that_is_missing_is_named_with_the_extra(lacking, name, monkeypatch):
    monkeypatch.setattr(_import_torch.importlib.util, "find_spec", lambda package: None if package == lacking else 1)
    with pytest.raises(_import_torch.Refused, match=f"^{name} is not installed") as caught:
        _import_torch._packages()
    assert caught.value.told["hint"] == "pip install 'dispatchflow[torch]'"
    assert caught.value.told["wrong_input"]
