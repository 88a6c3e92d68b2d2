"""Damaged objects, records and parts: noticed, told, made anew; the clock set back."""

from __future__ import annotations

import pytest
from real import NAME, Project, assert_whole, sweep

from dispatchflow.keys import digest_file

pytest_plugins = ["real"]
pytestmark = pytest.mark.iree

DAMAGES = {
    "a changed byte": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "cut short": lambda content: content[: len(content) // 2],
    "emptied": lambda content: b"",
    "deleted": None,
}


USED = ["module.vmfb", "random_0.bin", "exact_1.bin", "expected_exact.bin", "expected_tolerance.bin"]


@pytest.mark.parametrize(
    ("name", "damage"), [*((name, "a changed byte") for name in USED), *((USED[0], d) for d in list(DAMAGES)[1:])]
)
def test_a_damaged_object_is_made_anew_before_it_is_used(name: str, damage: str, copied: Project) -> None:
    path = (copied.root / "build" / NAME / name).resolve(strict=True)
    content, change = path.read_bytes(), DAMAGES[damage]
    path.unlink()
    if change is not None:
        path.write_bytes(change(content))
    # Verification and what follows is to be done again, with this object.
    other = sweep(m=16, n=16, k=16, tuning="double_tiling_64x64_4x16x1")
    used = {"module.vmfb": [f"profile:{NAME}", "remeasure=yes"]}.get(name, ["verify:*double_tiling*"])
    copied.add(other)

    outcome = copied.doit("protocol=fast", *used)

    assert outcome.code == 0, outcome
    assert path.read_bytes() == content
    assert path.parent.name + path.name == digest_file(path)
    assert_whole(copied)
    assert all(row["verification"] == "within bound" for row in copied.rows())


def test_records_that_are_no_database_are_refused_with_a_way_out(copied: Project) -> None:
    for path in copied.store.glob("records.sqlite*"):
        path.unlink()
    (copied.store / "records.sqlite").write_bytes(b"nonsense" * 1000)

    outcome = copied.doit("protocol=fast")

    assert outcome.code == 2
    assert "the records cannot be read" in outcome.err
    assert copied.doit("report").code == 0


def test_a_part_cut_short_is_named_and_written_again_once_removed(copied: Project) -> None:
    (part,) = (copied.store / "results").iterdir()
    content = part.read_bytes()
    part.write_bytes(content[:100])

    outcome = copied.doit("report")
    assert (outcome.code, "Remove that part" in outcome.err) == (2, True)

    part.unlink()
    assert copied.doit("protocol=fast").code == 0
    assert {row["case"] for row in copied.rows()} == {
        name for (name,) in copied.query("select distinct name from latest")
    }
