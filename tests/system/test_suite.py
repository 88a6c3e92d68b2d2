"""A test suite through the whole chain."""

import pytest
from support import suite_folders
from support.project import Project

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree


def test_a_suite_is_verified_and_an_error_in_one_folder_is_that_folders_failure(tmp_path):
    project = Project.make(tmp_path)
    suite_folders.make(tmp_path / "suite")
    words = ("suite=suite/*", "threads=1", "verify")
    outcome = project.doit(*words)
    assert outcome.code == 1, str(outcome)
    assert "failed: run_module_io_flags.txt:1: --inputs is not understood. Did you mean 'input'?" in outcome.out
    assert "skipped: no flag file (run_module_io_flags.txt) (module_no_flags)" in outcome.out
    assert "failed: 7 elements of result 0 are wrong" in outcome.out
    assert "module_broken_broken_default@llvm-cpu-1t" in outcome.out
    assert "6 cases:" in outcome.out and "3 failed, 2 skipped" in outcome.out
    (tmp_path / "suite/odd_flag/run_module_io_flags.txt").write_text(suite_folders.FLAGS)
    assert "2 failed, 2 skipped" in project.doit(*words).out
