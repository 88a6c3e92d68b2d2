"""The code digest of a vmfb changes if and only if its code changes.

benchmarks/digest_variants.py makes the compared variants of a module."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.digest_variants import BACKENDS, RENAME, SURROUNDINGS, VARIANTS, Study
from benchmarks.digests import change, programs
from dispatchflow.iree import vmfb
from dispatchflow.iree.cpu_features import HostCpu
from dispatchflow.project.workspace import Workspace
from dispatchflow.store.store import Store

pytestmark = pytest.mark.iree

RENAMED = "another name of the machine"
_STUDIED_ONLY = {*SURROUNDINGS, "another shape", "another order in the source", "locations in a file", "the same again"}
"""The variants that are not tested, because they are compiled only for docs/digest-study.md."""

TRIED = [name for name in VARIANTS if name not in _STUDIED_ONLY]

ONLY = {
    "a constant in an executable": "code",
    "a constant beside the executables": "data",
    "a number that the host passes": "host",
    "a workgroup count alone": "host",
    "the launch order alone": "host",
    "one launch more": "host",
    "--iree-stream-partitioning-favor=debug": "host",
}
"""A dict from a variant of the module to the only kind of vmfb entry that this variant changes.

If the digest left out the entries of this kind, it would not show the variant's change."""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("digest"), {})


@pytest.fixture(scope="module")
def study(workspace: Workspace) -> Study:
    return Study(workspace.store)


_PARAMETERS = [pytest.param(b, marks=() if b == "llvm-cpu" else pytest.mark.slow) for b in BACKENDS]


@pytest.fixture(scope="module", params=_PARAMETERS)
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize("name", TRIED)
def test_the_digest_moves_with_the_code_and_not_otherwise(study: Study, backend: str, name: str) -> None:
    if name == RENAMED and subprocess.run([*RENAME, "true"], capture_output=True).returncode:
        pytest.skip("this system lets nobody have a host name of their own (unshare --uts)")
    variant = VARIANTS[name]
    vmfbs = study.original(backend, variant.staged), study.compiled(variant.make(study, backend))
    before, after = (vmfb.inspect(content) for content in vmfbs)

    assert (before.problem, after.problem) == (None, None)
    assert (before.code_digest != after.code_digest) == variant.moves, change(*vmfbs)
    if name in ONLY:
        assert change(*vmfbs) == ONLY[name]


def test_the_product_compiles_to_the_same_digest(study: Study, workspace: Workspace, backend: str) -> None:
    base = study.base(backend)

    record = workspace.executor.compile_module(base.text.encode(), base.flags)

    assert record.ok, record.reason
    assert record.facts["code_digest"] == vmfb.inspect(study.original(backend, False)).code_digest


@pytest.mark.slow
def test_the_code_of_two_releases_is_equal_or_an_executable_differs(tmp_path: Path) -> None:
    # The named CPU makes the result the same on every machine.
    store = Store(tmp_path / "store")
    old, new = Study(store, "3.12.0"), Study(store, "3.13.0")
    old.host = new.host = HostCpu("x86-64-v3", "+avx,+avx2,+fma")

    def compared(backend: str, name: str) -> str:
        return change(*(s.compiled(replace(s.base(backend), text=programs(s)[name])) for s in (old, new)))

    found = {backend: compared(backend, "this study's module") for backend in BACKENDS}
    assert found == {"llvm-cpu": "=", "vmvx": "=", "vulkan": "=", "cuda": "code", "rocm": "code"}
    assert {backend: compared(backend, "matmul f32") for backend in BACKENDS} == dict.fromkeys(BACKENDS, "=")
    assert "code" in compared("llvm-cpu", "matmul i8 → i32")
