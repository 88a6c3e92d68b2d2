"""A user's own tasks and operations in dodo.py run beside the built-in ones."""

from __future__ import annotations

import pytest
from support.project import DODO, NAME, NOTHING, Project, only, sweep

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree


OWN_TASKS = '''
def task_above():
    """stands above main()"""
    return {"actions": ["echo above >> order"]}

from dispatchflow import main

main()

def task_below():
    """stands below main()"""
    def look():
        from pathlib import Path
        with Path("order").open("a") as out:
            out.write(f"below after {len(list(Path('build').glob('*/module.vmfb')))} modules\\n")
    return {"actions": [look], "task_dep": ["profile:*_20x*"]}

def task_wrong():
    """fails"""
    return {"actions": ["false"]}
'''


def test_own_tasks_are_listed_planned_and_run_beside_the_built_in_ones(copied: Project) -> None:
    (copied.root / "dodo.py").write_text(OWN_TASKS)
    copied.add(sweep(m=20))

    listed = copied.doit("list").out
    assert "stands above main()" in listed
    assert "stands below main()" in listed

    assert copied.doit("above").code == 0
    assert (copied.root / "order").read_text() == "above\n"

    plain = copied.doit("plan", "protocol=fast", "profile:*_20x*").out
    (copied.root / "dodo.py").write_text(OWN_TASKS + 'DOIT_CONFIG = {"default_tasks": ["below"]}\n')
    for words in (["below"], []):
        planned = copied.doit("plan", "protocol=fast", *words).out.splitlines()
        assert planned[:-2] == plain.splitlines()[:-1] and "profile  1 of 1 to run" in planned
        assert planned[-1] == "then your own tasks: below"
    (copied.root / "dodo.py").write_text(OWN_TASKS)

    counts, _ = copied.made_by("protocol=fast", "below")
    assert counts == only(emit=1, compile=1, verify=1, profile=1)
    assert (copied.root / "order").read_text().startswith("above\nbelow after ")
    assert any(row["m"] == 20 for row in copied.rows())

    # A user's task runs if it is named together with cases, and does not run if only cases are named.
    counts, _ = copied.made_by("protocol=fast", "above", f"profile:{NAME}")
    assert (counts, (copied.root / "order").read_text().count("above\n")) == (NOTHING, 2)
    copied.made_by("protocol=fast")
    assert (copied.root / "order").read_text().count("above\n") == 2


def test_an_own_task_that_fails_is_exit_code_1(copied: Project) -> None:
    (copied.root / "dodo.py").write_text(OWN_TASKS)

    assert copied.doit("wrong").code == 1
    outcome = copied.doit("protocol=fast", "wrong", f"profile:{NAME}")
    assert outcome.code == 1
    assert NAME in outcome.out


UNFIT = """\
from dispatchflow import main
from dispatchflow.operations import OPERATIONS

OPERATIONS["vecmat"].flops = lambda self: self.sizes[0] // 0
OPERATIONS["vecmat"].traffic_bytes = lambda self: "many"

main()

def task_mine():
    return {"actions": ["echo mine > mine"], "task_dep": ["profile:*_20x*", "profile:vecmat*"]}
"""


def test_a_refused_row_does_not_stop_the_other_rows_and_tasks(copied: Project) -> None:
    (copied.root / "dodo.py").write_text(UNFIT)
    copied.add(sweep(m=20) + sweep(operation="vecmat", m=None))

    outcome = copied.doit("protocol=fast", "profile:vecmat*", "mine")

    assert outcome.code == 2, str(outcome)
    assert "a row does not fit its columns:\n  case    vecmat_16x16" in outcome.err
    assert "  column  flops, int64\n  value   ZeroDivisionError: " in outcome.err
    assert "(dodo.py, line 4)\n" in outcome.err and "Traceback" not in outcome.err
    assert "2 measured in " in outcome.out
    assert (copied.root / "mine").exists()
    assert [row["m"] for row in copied.rows()].count(20) == 1
    assert [row for row in copied.rows() if row["operation"] == "vecmat"] == []
    assert [*(copied.root / "build").rglob("matmul_20x*/module.vmfb")]

    # With a valid `flops`, the row is written; with another value, it is written again.
    for flops in (512, 513):
        mended = f"from dispatchflow.operations.vecmat import Vecmat\nVecmat.flops = lambda self: {flops}\n"
        (copied.root / "dodo.py").write_text(mended + DODO)
        outcome = copied.doit("protocol=fast", "profile:vecmat*")
        assert "1 case: up to date (1 reused)" in outcome.out, str(outcome)
        assert [row["flops"] for row in copied.rows() if row["operation"] == "vecmat"][-1] == flops
