"""Assert that no object (a file in the store) is damaged, and that objects named in records exist."""

from __future__ import annotations

from support.project import Project


def assert_whole(project: Project) -> None:
    assert project.damaged() == []
    named = project.query("select distinct value from record, json_each(record.outputs)")
    assert [d for (d,) in named if not (project.store / "objects" / d[:2] / d[2:]).is_file()] == []
