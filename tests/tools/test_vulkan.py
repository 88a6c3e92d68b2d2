"""Vulkan by lavapipe: cases are right on it, and how it is had."""

import json
import subprocess

import pytest
from support import lavapipe
from support.project import REPOSITORY, Project, sweep
from support.tools import environment, write_script


@pytest.fixture(scope="session")
def vulkan() -> dict[str, str]:
    """The environment in which there is a Vulkan device: lavapipe, downloaded beside this checkout."""
    try:
        return lavapipe.environment(REPOSITORY / ".lavapipe")
    except lavapipe.Unavailable as error:
        pytest.skip(f"no Vulkan here: {error}")


@pytest.mark.iree
def test_vulkan_is_verified_and_measured(vulkan, tmp_path):
    project = Project.make(tmp_path / "p", sweep(m=24, n=16, k=40, target="vulkan", threads=[1, 2]))
    outcome = project.doit("protocol=fast", **vulkan)
    rows = project.rows()
    assert outcome.code == 0, str(outcome)
    assert len(rows) == 1  # threads are none of its axes
    assert {row["verification"] for row in rows} == {"within bound"}
    assert all(row["median_ns"] > 0 and row["device"].startswith("vulkan://") for row in rows)
    assert all(0 < row["percent_of_peak"] < 100 for row in rows)  # the device was calibrated
    # Its own anchors, which run there. A row shows them only where blocks are enough for an interval.
    session = (
        "select conditions ->> '$.session.anchors_ns' from measurement where ingredients ->> '$.protocol' like 'fast%'"
    )
    assert [len(json.loads(anchors)) for (anchors,) in project.query(session)] == [2]
    assert "up to date" in project.doit("protocol=fast", **vulkan).out
    repeated = subprocess.run(
        [project.root / f"build/{rows[0]['case']}/repro.sh", "benchmark"],
        env=environment(vulkan), capture_output=True, text=True,
    )  # fmt: skip
    assert repeated.returncode == 0, repeated.stderr


VULKAN = {
    "matmul": ({"shape": "33x65x40", "layout": "tt,tn,nt,nn", "accumulate": "no,yes"}, 8),
    "conv2d": ({"shape": "2x11x9x5x6x3x2", "stride": "1,2", "padding": "0,1"}, 4),
    "softmax": ({"shape": "17x130"}, 1),
    "tiles": ({"operation": "matmul", "shape": "96x80x66,7x9x3", "tuning": "base_vectorize_64x64_8x8x4"}, 2),
}


@pytest.mark.iree
@pytest.mark.parametrize("operation", VULKAN)
def test_operations_are_right_on_vulkan(operation, vulkan, tmp_path):
    words, count = VULKAN[operation]
    variables = [f"{word}={value}" for word, value in {"operation": operation, "target": "vulkan", **words}.items()]
    project = Project.make(tmp_path / "p")

    outcome = project.doit(*variables, "verify", **vulkan)

    assert outcome.code == 0, str(outcome)
    verified = [
        json.loads(facts)["verification"]
        for (facts,) in project.query("select facts from record where stage = 'verify'")
    ]
    assert verified == ["within bound"] * count  # bit by bit on exact inputs, where it has such


def test_lavapipe_is_its_libraries_and_their_dependencies():
    needs = """\
libvulkan1
  Depends: libc6
    Depends: libx11-6
mesa-vulkan-drivers
  Depends: python3
 |Depends: libllvm15
  Depends: <python3:any>
libx11-6
python3
  Depends: libssl3
libllvm15
  PreDepends: libz3-4
"""
    assert lavapipe._libraries(needs) == ["libllvm15", "libvulkan1", "libx11-6", "libz3-4", "mesa-vulkan-drivers"]


@pytest.mark.parametrize(
    ("apt", "says"),
    [
        (None, "there is no apt here"),
        ("echo 'E: Failed to fetch http://x  Could not resolve x' >&2; exit 100", "Could not resolve"),
        ("echo 'W: Failed to fetch http://x  Could not resolve x' >&2", "Could not resolve"),
    ],
)
def test_lavapipe_that_is_not_available_is_an_error_with_the_reason_and_leaves_nothing(
    apt, says, tmp_path, monkeypatch
):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("apt-get", "apt-cache", "dpkg-deb") if apt else ():
        write_script(tools / name, apt)
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(lavapipe.Unavailable, match=says):
        lavapipe.environment(tmp_path / "lavapipe")
    assert not list((tmp_path / "lavapipe").iterdir())
