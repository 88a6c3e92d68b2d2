"""Small cases, for tests that break one thing in a case.

Most cases have equal sizes, so that swapped or transposed operands still have the right shapes."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.once import once
from support.product import operation_of

from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch, _module
from dispatchflow.iree.targets import TARGETS
from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.project.workspace import Workspace
from dispatchflow.store.entries import Record
from dispatchflow.tunings import TUNINGS

SQUARE = (16, 16, 16)


def of(name: str, sizes: tuple[int, ...], **options: str | int) -> Operation:
    return OPERATIONS[name].make(sizes, **options)  # type: ignore[arg-type]


def default_case(cls: type[Operation], signature: str, layout: str | None = None) -> Case:
    operation = operation_of(cls, SQUARES_OF.get(cls.name, SQUARE), signature, layout or cls.layouts[0])
    return Case(Dispatch(operation, TUNINGS["default"].expand({})[0]), TARGETS["llvm-cpu"], 1)


SQUARES_OF: dict[str, tuple[int, ...]] = {
    "conv2d": (4, 4, 4, 4, 4, 4, 4),
    "quantized_conv2d": (4, 4, 4, 4, 4, 4, 4),
    "depthwise_conv2d": (2, 8, 8, 8, 3, 3),
    "pooling": (2, 8, 8, 8, 3, 3),
    "scaled_matmul": (16, 16, 64),
}
"""The sizes of the operations that cannot use `SQUARE`, for example because a dim is a window's size."""
SIGNATURES = [
    pytest.param(
        *(cls, word),
        id=f"{cls.name}-{word}",
        marks=() if cls.name == "matmul" or word == next(iter(cls.signatures)) else pytest.mark.slow,
    )
    for cls in OPERATIONS.values()
    for word in cls.signatures
]


@pytest.fixture(scope="session")
def compiled_squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store of compiled cases, which are not verified.

    There is one case for each operation and type in `SIGNATURES` that is not marked as slow."""

    def make(folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        workspace = Workspace(folder, {})
        cases = [default_case(*parameter.values) for parameter in SIGNATURES if not parameter.marks]
        with ThreadPoolExecutor(2) as pool:
            assert all(record.ok for record in pool.map(workspace.executor.compile, cases))
        del workspace, pool
        # The end of the last connection deletes the database's temporary files; not while the folder is copied.
        gc.collect()

    return once(tmp_path_factory, "squares", make)


@pytest.fixture
def squares(compiled_squares: Path, tmp_path: Path) -> Iterator[Workspace]:
    shutil.copytree(compiled_squares, tmp_path / "squares")
    _module.cache_clear()  # a broken body is printed again, and no other test gets its text
    yield Workspace(tmp_path / "squares", {})
    _module.cache_clear()


def verified(workspace: Workspace, case: Case) -> Record:
    record = workspace.executor.verify(case, workspace.resolver.chain(case).device)
    if record is None and workspace.resolver.chain(case).known is not None:
        pytest.skip("a known failure on this CPU")
    assert record is not None, workspace.executor.compile(case).reason
    return record


def verify_is_not_reached(workspace: Workspace, case: Case) -> bool:
    return workspace.executor.verify(case, workspace.resolver.chain(case).device) is None
