import pytest

from dispatchflow.tools.limits import LimitHit, Limits, shown

LIMITS = Limits(compile_s=300.0, run_s=5, block_s=7, memory_bytes=8 << 30)


@pytest.mark.parametrize(("name", "value"), [("compile_limit", 300), ("run_limit", 5), ("block_limit", 7)])
def test_a_tool_that_took_too_long_hit_the_limit_it_ran_under(name, value):
    hit = LIMITS.hit(name, True, "error: out of memory")
    assert hit == LimitHit(name, value)
    assert hit.reason("died") == f"took longer than {name}={value}; a higher {name} tries again"


@pytest.mark.parametrize(
    "stderr",
    [
        "LLVM ERROR: out of memory\nAllocation failed\nStack dump:",
        "LLVM ERROR: pthread_create failed: Resource temporarily unavailable",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "fork: Cannot allocate memory",
        "iree/base/allocator.c:97: RESOURCE_EXHAUSTED; failed to allocate 1073741824 bytes",
    ],
)
def test_a_tool_that_reports_no_memory_hit_the_memory_limit_if_there_is_one(stderr):
    hit = LIMITS.hit("compile_limit", False, stderr)
    assert hit == LimitHit("memory_limit", 8 << 30)
    assert hit.reason("died") == "ran out of memory at memory_limit=8GiB; a higher memory_limit tries again"
    assert Limits().hit("compile_limit", False, stderr) is None


def test_a_tool_that_failed_otherwise_hit_no_limit():
    assert LIMITS.hit("compile_limit", False, "error: 'linalg.matmul' op memory layout") is None


def test_a_tool_that_failed_otherwise_may_have_hit_a_memory_limit_of_the_user():
    hit = Limits(memory_bytes=20 << 20, memory_asked=True).hit("compile_limit", False, "error: failed to link")
    assert hit == LimitHit("memory_limit", 20 << 20, certain=False)
    assert hit.reason("died") == "died, under memory_limit=20MiB; a higher memory_limit tries again"
    assert Limits(memory_asked=True).hit("compile_limit", False, "error: failed to link") is None


@pytest.mark.parametrize(
    ("recorded", "why"),
    [
        (None, None),
        (["compile_limit", 300.0], None),
        (["compile_limit", 600.0], None),
        (["compile_limit", 5.0], "failed at compile_limit=5, now 300"),
        (["memory_limit", 8 << 30], None),
        (["memory_limit", 512 << 20], "failed at memory_limit=512MiB, now 8GiB"),
    ],
)
def test_a_recorded_failure_is_tried_again_once_its_limit_was_raised(recorded, why):
    assert LIMITS.raised(recorded) == why


def test_no_limit_counts_as_higher_than_any_limit():
    assert Limits().raised(["memory_limit", 1 << 40]) == "failed at memory_limit=1TiB, now none"


@pytest.mark.parametrize(
    ("value", "text"), [(100, "0.09766KiB"), (24_731_708 << 10, "23.59GiB"), (3 << 29, "1.5GiB"), (1 << 20, "1MiB")]
)
def test_memory_is_shown_with_a_unit(value, text):
    assert shown("memory_limit", value) == text
