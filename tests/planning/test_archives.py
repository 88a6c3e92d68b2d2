"""Members of `.npz` archives are listed in order and selected by names and patterns."""

import io

import numpy as np
import pytest

from dispatchflow.planning import archives


def archive(*names: str) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **{name: np.zeros(1) for name in names})
    return stream.getvalue()


def test_members_are_in_natural_order():
    names = archives.members(archive("in10", "out0", "in2", "in", "in1", "in2b", "b/in3"))
    assert archives.chosen(names, "in*") == ["in", "in1", "in2", "in2b", "in10"]
    assert archives.chosen(names, "*in[0-9]") == ["b/in3", "in1", "in2"]
    assert archives.chosen(names, "out0") == ["out0"]
    assert archives.chosen(names, "out") == archives.chosen(names, "") == []


def test_an_existing_name_is_not_treated_as_a_pattern():
    names = archives.members(archive("a", "*", "in[0]"))
    assert archives.chosen(names, "*") == ["*"]
    assert archives.chosen(names, "in[0]") == ["in[0]"]


def test_path_and_member_are_split_at_the_archive_s_suffix():
    assert archives.split("a:b/ref.npz:in*") == ("a:b/ref.npz", "in*")
    assert archives.split("ref.npz") == ("ref.npz", "")
    assert archives.split("ref.npy") is None


def test_a_file_that_is_not_an_archive_is_an_error():
    with pytest.raises(ValueError, match=r"not a \.npz file"):
        archives.members(b"PK nothing")
