"""A failure is a regression if the same stage of the case passed with another toolchain or runtime."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path, PurePath

import pytest
from conftest import TOOLCHAIN
from support.project import Project
from support.tools import toolchain

from dispatchflow.cases.known_failures import KnownFailures, parse
from dispatchflow.keys import Digest
from dispatchflow.store.entries import Record

OLD = replace(TOOLCHAIN, digest=Digest("digest-of-the-old-toolchain"), runtime_digest=Digest("old"), version="3.12.0")
WORDS = "[[known_failure]]\nmatch = 'matmul_*'\nmessage = 'never'\nreason = 'known'\nsome = true\n"


@pytest.fixture
def recorded(records, resolver_of, case_of):
    """Return `record(stage, ok, **changed)`, which stores the outcomes of a case's stages up to `stage`.

    If `ok` is False, `stage` is stored as failed. All earlier stages are stored as successful. `changed` replaces
    arguments of the resolver, such as the toolchain."""
    records.remember("toolchain:old", json.dumps({"digest": OLD.digest, "version": "3.12.0", "runtime_digest": "old"}))

    def record(stage, ok, **changed):
        case, resolver = case_of(threads=1), resolver_of(**changed)
        with_same = resolver.toolchain.digest == TOOLCHAIN.digest
        for name in ("compile", "inputs", "expected", "verify"):
            match name:
                case "inputs":
                    action, facts = resolver.supplies.inputs_action(case.operation), {}
                    outputs = {f"{recipe}_{i}": "d" for recipe in ("exact", "wide", "random") for i in (0, 1)}
                case "expected":
                    action, facts = resolver.supplies.expected_action(case.operation), {}
                    outputs = {"exact": "d", "wide": "d"}
                case _:
                    action, outputs = resolver.chain(case)[name].action, {}
                    facts = {"code_digest": "code" if with_same else "old code"} if name == "compile" else {}
                    facts |= {"runtime_digest": resolver.toolchain.runtime_digest} if name == "verify" else {}
            good = ok if name == stage else True
            records.add(Record(action.key, name, good, None if good else "never", outputs, facts, action.ingredients))
            if name == stage:
                return

    return record


@pytest.fixture
def failure(resolver_of, case_of):
    """Return `find(stage, releases)`, which plans a case that failed at `stage`.

    `find` declares the failure as known for the compiler releases `releases`, or for all releases by default. It
    returns (whether the failure counts as known, the failure's reason)."""

    def find(stage, releases=""):
        entries = parse(f"{WORDS}stage = '{stage}'\ntoolchain = '{releases}'\n", PurePath("a.toml"))
        chain = resolver_of(known=KnownFailures(entries, "3.13.0", lambda log: "")).chain(case_of(threads=1))
        assert chain.failure is not None
        assert chain.failure.stage == stage
        return chain.known is not None, chain.failure.why

    return find


@pytest.mark.parametrize("stage", ["compile", "verify"])
def test_failure_that_passed_with_another_toolchain_is_a_regression(stage, recorded, failure):
    recorded(stage, False)
    assert failure(stage) == (True, "never")
    recorded(stage, False, toolchain=OLD)
    assert failure(stage) == (True, "never")
    recorded(stage, True, toolchain=OLD)
    assert failure(stage) == (False, "regression: passed with 3.12.0; never")
    assert failure(stage, ">=3.13") == (True, "never")  # the entry says that 3.12 passes


@pytest.mark.parametrize("stage", ["compile", "verify"])
def test_unknown_failure_is_a_regression_too(stage, recorded, resolver_of, case_of):
    recorded(stage, False)
    assert resolver_of().chain(case_of(threads=1)).failure.why == "never"
    recorded(stage, True, toolchain=OLD)
    chain = resolver_of().chain(case_of(threads=1))
    assert (chain.known, chain.failure.why) == (None, "regression: passed with 3.12.0; never")


def test_failure_that_passed_with_another_runtime_is_a_regression(recorded, failure, records, resolver_of, case_of):
    recorded("verify", True)
    of_old = "code = 'old', facts = json_set(facts, '$.runtime_digest', 'old', '$.runtime', '3.12.0')"
    records._db.execute(f"update record set {of_old} where stage = 'verify'")
    resolver = resolver_of()
    resolver.asked_to_measure = (case_of(threads=1),)
    action = resolver.chain(case_of(threads=1))["verify"].action
    facts = {"runtime_digest": TOOLCHAIN.runtime_digest}
    records.add(Record(action.key, "verify", False, "never", {}, facts, action.ingredients))
    assert failure("verify") == (False, "regression: passed with 3.12.0; never")


@pytest.mark.iree
def test_a_flag_that_only_another_compiler_applied_fails_the_run(tmp_path: Path) -> None:
    flag = "--iree-dispatch-creation-split-matmul-reduction"
    script = f"""for word; do shift; case "$word" in {flag}*) ;; *) set -- "$@" "$word";; esac; done
exec "$real" "$@\""""
    toolchain(tmp_path / "deaf", iree_compile=script)
    project = Project.make(tmp_path / "p")
    words = ("operation=matmul", "m=64", "n=48", "k=2048", "tuning=split_k_4", "threads=1", "compile")
    assert project.doit(*words).code == 0
    deaf = (*words, f"iree={tmp_path / 'deaf'}")
    for _ in range(2):
        outcome = project.doit(*deaf)
        assert outcome.code == 1, outcome
        assert "; configuration ignored: asked for 4 slices of k" in outcome.out, outcome
        assert ": regression: passed with " in outcome.out, outcome
    assert project.doit(*words).code == 0
