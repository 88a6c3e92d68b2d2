"""If several IREE runtimes verify the same compiled code, the store keeps a verdict for each runtime."""

from dataclasses import replace

import pytest
from conftest import TOOLCHAIN

from dispatchflow.keys import Digest
from dispatchflow.store.entries import Record

OTHER = Digest("digest-of-another-runtime")
THIRD = Digest("digest-of-a-third-runtime")


@pytest.fixture
def compiled(case_of, records, resolver_of):
    """Return `make(runtime)`, a function that records a case's compile, inputs and expected results.

    If `runtime` is given, the function also records a measurement with this runtime."""

    def make(runtime=None, m=4):
        case, resolver = case_of(threads=1, m=m), resolver_of()
        records.add(Record(resolver.chain(case)["compile"].key, "compile", True, facts={"code_digest": f"code {m}"}))
        data, expected = (
            resolver.supplies.inputs_action(case.operation),
            resolver.supplies.expected_action(case.operation),
        )
        names = [f"{recipe}_{i}" for recipe in ("exact", "wide", "random") for i in (0, 1)]
        records.add(Record(data.key, "inputs", True, outputs=dict.fromkeys(names, "d")))
        records.add(Record(expected.key, "expected", True, outputs={"exact": "d", "wide": "d"}))
        if runtime is not None:
            taken = records.begin_measurement(resolver.chain(case)["profile"].key, {}, {}, "run")
            records.add_block(taken, 0, 100.0, None, 0.1)
            records.end_measurement(taken, "measured", None, {"runtime_digest": runtime})
        return case

    return make


@pytest.fixture
def verified(records, resolver_of):
    """Return `make(case, runtime, ok)`, which records that the case passed or failed verification.

    `runtime` is the digest of the runtime that verified the case."""

    def make(case, runtime, ok, **words):
        resolver = resolver_of(toolchain=replace(TOOLCHAIN, runtime_digest=runtime))
        resolver.asked_to_measure = words.get("measure", ())
        step = resolver.chain(case)["verify"]
        assert step.pending
        facts = {"runtime_digest": runtime, "verification": "equal" if ok else "different"}
        records.add(Record(step.key, "verify", ok, None if ok else "1 element is wrong", facts=facts))

    return make


def test_code_is_verified_again_if_it_is_measured_now_and_not_if_it_is_reused(compiled, verified, resolver_of):
    reused, never = compiled(OTHER), compiled(m=5)
    for case in (reused, never):
        verified(case, OTHER, ok=True)
    resolver = resolver_of()
    assert resolver.chain(never)["verify"].state == "made"  # no measurement was asked for
    resolver.asked_to_measure = {never: None, reused: None}
    step = resolver.chain(never)["verify"]
    assert (step.state, step.why) == (
        "missing",
        "another runtime verified it; the runtime that measures it verifies it too",
    )
    assert resolver.chain(reused)["verify"].state == "made"
    verified(never, TOOLCHAIN.runtime_digest, ok=True, measure=(never,))
    assert resolver.chain(never).pending("profile")[-1:] == ["profile"]
    assert resolver.chain(never)["verify"].state == "made"


def test_each_runtime_keeps_its_verdict(compiled, verified, resolver_of):
    own, case = TOOLCHAIN.runtime_digest, compiled()
    verified(case, own, ok=False)
    verified(case, OTHER, ok=True)
    verified(case, THIRD, ok=False)
    for _ in range(2):
        for runtime, state in ((own, "failed"), (OTHER, "made"), (THIRD, "failed")):
            resolver = resolver_of(toolchain=replace(TOOLCHAIN, runtime_digest=runtime))
            assert resolver.chain(case)["verify"].state == state
    newer = resolver_of(toolchain=replace(TOOLCHAIN, runtime_digest=Digest("digest-of-a-newer-runtime")))
    assert newer.chain(case)["verify"].why == "failed or gave wrong results with another runtime"
