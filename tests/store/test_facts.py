"""The facts (named values) that a run writes into its records are all fields of `Facts`."""

from __future__ import annotations

import pytest
from support.project import Project

from dispatchflow.store.facts import Facts

pytest_plugins = ["support.project"]


@pytest.mark.iree
def test_the_facts_of_records_are_those_of_the_table(made: Project) -> None:
    found = {name for (name,) in made.query("select distinct each.key from record, json_each(record.facts) each")}

    assert found >= {"code_digest", "applied", "verification", "rungs"}
    assert found <= Facts.__annotations__.keys()
