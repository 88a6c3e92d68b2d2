"""A plan can have cases of libraries such as numpy beside IREE's cases. Each case has its own keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dispatchflow.keys import Digest
from dispatchflow.libraries import installed, providers
from dispatchflow.libraries.installed import Installed
from dispatchflow.project.workspace import Workspace
from dispatchflow.store.entries import Record

pytest_plugins = ["support.project"]


# --- the plan


def test_a_library_has_one_case_beside_all_tunings(plan_of: Any) -> None:
    plan = plan_of(SPEC.format('provider = ["iree", "numpy"]', 'tuning = ["default", "data_tiling"]'))
    assert [case.name.split("f32t_")[-1] for case in plan.cases] == [
        "default@llvm-cpu-1t", "data_tiling@llvm-cpu-1t", "numpy@llvm-cpu-1t",
    ]  # fmt: skip


def test_hot_and_cold_are_separate_cases(plan_of: Any) -> None:
    plan = plan_of(SPEC.format('provider = "numpy"', 'cache = ["hot", "cold"]'))
    assert [case.name.split("@")[1] for case in plan.cases] == ["llvm-cpu-1t", "llvm-cpu-1t-cold"]


def test_a_target_that_a_library_cannot_run_on_is_a_skip(plan_of: Any) -> None:
    plan = plan_of(SPEC.format('provider = ["numpy", "torch"]', 'target = ["vulkan", "cuda-sm_80"]'))
    assert [case.name.split("f32t_")[-1] for case in plan.cases] == ["torch@cuda-sm_80"]
    assert [skip.reason for skip in plan.skips] == [
        "numpy does not run on vulkan", "numpy does not run on cuda-sm_80", "torch does not run on vulkan",
    ]  # fmt: skip


def test_a_library_that_is_not_installed_is_a_skip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(installed, "library", lambda name: None)
    words = dict.fromkeys("mnk", "8") | {"threads": "1", "provider": "torch"}
    (skip,) = Workspace(tmp_path, words).plan.skips
    assert skip.reason == "torch is not installed; pip install 'dispatchflow[torch]'"


SPEC = '[[sweep]]\noperation = "matmul"\nshape = "4x5x6"\nthreads = 1\n{}\n{}\n'


# --- keys


SOME = Installed("1.0", Digest("d"), "/somewhere")


@pytest.fixture
def keys_of(case_of: Any, resolver_of: Any, records: Any) -> Any:
    def make(library: Installed = SOME, **words: Any) -> tuple[Any, Any]:
        case = case_of(threads=1, **{"provider": "numpy", **words})
        resolver = resolver_of(installed=lambda name: library, cache_bytes=2**20)
        actions = resolver.supplies.actions(case.operation)
        names = [f"{recipe}_{i}" for recipe in case.operation.recipes for i in (0, 1)]
        for action in actions:
            records.add(Record(action.key, action.stage, True, outputs=dict.fromkeys(names, "d")))
        chain = resolver.chain(case)
        return chain["verify"].key, chain["profile"].key

    return make


def test_keys_of_a_library_depend_on_its_code_and_on_the_call(keys_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    base = keys_of()
    others = [
        keys_of(Installed("1.1", Digest("d"), "/somewhere")),
        keys_of(Installed("1.0", Digest("d2"), "/somewhere")),
        keys_of(layout="tn"),
    ]
    monkeypatch.setattr(providers, "HARNESS", providers.HARNESS + 1)
    others.append(keys_of())
    for position in (0, 1):
        assert None not in (found := [base[position], *(other[position] for other in others)])
        assert len(set(found)) == len(found)
    monkeypatch.undo()
    assert keys_of(Installed("1.0", Digest("d"), "/elsewhere")) == base


def test_hot_and_cold_are_verified_once_and_measured_each(keys_of: Any) -> None:
    hot, cold = keys_of(), keys_of(cache="cold")
    assert hot[0] == cold[0]
    assert hot[1] != cold[1]


def test_libraries_that_a_library_may_load_are_part_of_its_device_and_not_of_the_compiler_s(
    case_of: Any, resolver_of: Any
) -> None:
    case, ours = case_of(threads=1, provider="numpy"), case_of(threads=1)
    environments = [{"LC_ALL": "C"}, {"LC_ALL": "C", "LD_LIBRARY_PATH": ""}, {"LC_ALL": "C", "LD_LIBRARY_PATH": "/a"}]
    without, empty, given = (resolver_of(installed=lambda name: SOME, environment=each) for each in environments)
    identity = without.chain(case).device.identity
    assert "LD_LIBRARY_PATH" not in identity
    assert empty.chain(case).device.identity == identity
    assert given.chain(case).device.identity == {**identity, "LD_LIBRARY_PATH": "/a"}
    assert given.chain(ours).device == without.chain(ours).device


@pytest.mark.parametrize("records", ["nothing", "its own", "BLAS too"])
def test_blas_that_no_installer_recorded_is_part_of_the_digest(
    records: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Debian records no files of a package. conda records the package's files, and PyPI also the BLAS in the package.
    own = {
        "its own": "numbers/a.so,sha256=1,9\n",
        "BLAS too": "numbers/a.so,sha256=1,9\nnumbers.libs/libblas.so,sha256=2,9\n",
    }
    for name, text in {
        "numbers-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: numbers\nVersion: 1\n",
        "numbers-1.dist-info/RECORD": own.get(records, ""), "numbers/a.so": "a", "lib/libblas-1.so": "b",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "lib/libblas.so.3").symlink_to("libblas-1.so")
    (tmp_path / "lib/libblas-2.so").write_text("other")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(installed, "_FOLDERS", (tmp_path / "lib",))

    def digest() -> str:
        installed.library.cache_clear()
        found = installed.library("numbers")
        assert found is not None
        return found.digest

    before = digest()
    assert digest() == before
    (tmp_path / "lib/libblas.so.3").unlink()
    (tmp_path / "lib/libblas.so.3").symlink_to("libblas-2.so")  # as `update-alternatives` does
    changed = digest()
    assert (changed != before) == (records != "BLAS too")
    (tmp_path / "numbers/a.so").write_text("another")
    assert (digest() != changed) == (records == "nothing")
    installed.library.cache_clear()


def test_an_installed_library_has_its_own_version_and_one_digest() -> None:
    found = installed.library("numpy")
    assert found is not None
    assert found.version == np.__version__
    assert (Path(found.folder) / "numpy").is_dir()
    assert installed.library("no-such-library") is None
