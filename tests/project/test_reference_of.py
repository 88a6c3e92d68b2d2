"""The results of a case's sites are compared with those of the same sites on another target.

By default, the other target is llvm-cpu, or vmvx if the target of the case is llvm-cpu."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dispatchflow.errors import SpecError
from dispatchflow.iree.targets import TARGETS
from dispatchflow.project.locating import reference_of


def case(target: str) -> SimpleNamespace:
    return SimpleNamespace(name=f"case@{target}", target=TARGETS[target])


@pytest.mark.parametrize(
    ("target", "given", "reference"),
    [
        ("vulkan", None, "llvm-cpu"),
        ("vmvx", None, "llvm-cpu"),
        ("llvm-cpu", None, "vmvx"),
        ("vulkan", "vmvx", "vmvx"),
    ],
)
def test_a_reference_has_another_target_than_the_case(target: str, given: str | None, reference: str) -> None:
    assert reference_of(case(target), TARGETS[given] if given else None).name == reference


def test_the_case_s_own_target_is_refused_as_a_reference() -> None:
    with pytest.raises(SpecError, match="both would run the same code") as raised:
        reference_of(case("llvm-cpu"), TARGETS["llvm-cpu"])
    assert "reference=vmvx" in str(raised.value)
