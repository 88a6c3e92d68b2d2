"""Rows that do not fit their columns keep no others from being written."""

from types import SimpleNamespace

import pytest

from dispatchflow import publish
from dispatchflow.results import read
from dispatchflow.store import Store


@pytest.fixture
def workspace(tmp_path):
    settings = SimpleNamespace(protocol=SimpleNamespace(id="fast-1"))
    return SimpleNamespace(store=Store(tmp_path / "store"), run="run-1", settings=settings)


def row_with(name, cells):
    chain = SimpleNamespace(case=SimpleNamespace(name=name))
    return SimpleNamespace(chain=chain, identity=f"of {name}", cells={"case": name, "recorded_at": 1.0} | cells)


def test_a_row_that_does_not_fit_its_columns_is_told_and_written_once_it_does(workspace):
    good = row_with("a", {"flops": 7})
    told = publish.publish(workspace, [row_with("b", {"flops": 1.5}), good, row_with("c", {"flops": 2.0})])
    assert str(told).startswith(
        "a row does not fit its columns:\n  case    b\n  column  flops, int64\n  value   1.5, float\n"
        "  rows    2 not written, the others are\n"
    )
    assert [row["case"] for row in read(workspace.store.results)] == ["a"]
    workspace.run = "run-2"
    assert publish.publish(workspace, [row_with("b", {"flops": 2}), good]) is None
    assert [(row["case"], row["flops"]) for row in read(workspace.store.results)] == [("a", 7), ("b", 2)]


def test_recorded_rows_that_do_not_fit_are_written_without_those_cells(workspace, caplog):
    rows = {"a": ("i1", {"case": "a", "recorded_at": 1.0, "kind": 1, "flops": 7}), "b": ("i2", {"case": "b", "recorded_at": 1.0, "kind": "sum"})}  # fmt: skip
    workspace.store.records.add_rows(rows, "run")
    publish.publish(workspace, [])
    found = [(row["case"], row["kind"], row["flops"]) for row in read(workspace.store.results)]
    assert found == [("a", None, 7), ("b", "sum", None)]
    assert caplog.messages == ["run-1.parquet: cells of another type are left out: kind"]
