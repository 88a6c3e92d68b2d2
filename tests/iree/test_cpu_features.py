"""The CPU name that is passed to the compiler implies only features that the machine offers."""

import tomllib
from pathlib import Path

import pytest

from dispatchflow.iree import cpu_features
from dispatchflow.iree.cpu_features import HostCpu

PRINTED = tomllib.loads((Path(__file__).parent.parent / "data/cpus.toml").read_text())


def implied(name: str) -> tuple[str, ...]:
    return cpu_features.PrintedCpu(name, tuple(filter(None, PRINTED["implied"].get(name, "").split(","))), "").present


def resolved(machine: str) -> HostCpu | None:
    printed = cpu_features.parse(PRINTED["host"][machine])
    assert printed is not None
    return cpu_features.resolve(printed, implied)


@pytest.mark.parametrize(
    ("machine", "name", "hidden"),
    [
        # This machine hides pconfig, pku, sgx and wbnoinvd, which no compiled code needs.
        ("Ice Lake server, virtual", "icelake-server", ""),
        ("Haswell", "haswell", ""),
        ("laptop without AVX2", "sandybridge", ""),
        ("Nehalem", "nehalem", ""),
        ("Skylake server without AVX-512", "x86-64-v3", "avx512bw,avx512cd,avx512dq,avx512f,avx512vl,prfchw"),
        ("Ice Lake taken for Tremont", "x86-64-v3", "gfni,prfchw,sha"),
        ("Graviton 2", "neoverse-n1", ""),
        ("Graviton 3", "neoverse-v1", ""),
        ("Graviton 3 without SVE", "generic", "sve"),
    ],
)
def test_the_cpu_that_is_passed_implies_nothing_that_the_machine_hides(machine, name, hidden):
    host = resolved(machine)
    assert host is not None
    assert (host.name, host.hidden) == (name, hidden)
    assert bool(host.named) == bool(hidden)


def test_an_epyc_without_avx_512_is_level_3_with_its_own_features():
    host = resolved("EPYC without AVX-512")
    assert host is not None
    assert (host.name, host.named) == ("x86-64-v3", "znver4")
    assert {"avx512f", "avx512bw", "gfni"} <= set(host.hidden.split(","))
    passed = host.features.split(",")
    assert {"+avx2", "+fma", "+sse4a"} <= set(passed)


@pytest.mark.parametrize("machine", PRINTED["host"])
def test_no_absent_feature_is_passed_and_none_twice(machine):
    printed, host = cpu_features.parse(PRINTED["host"][machine]), resolved(machine)
    assert printed is not None and host is not None
    passed = host.features.split(",")
    assert len(passed) == len(set(passed))
    assert all(feature.startswith("+") for feature in passed)
    last = {feature[1:]: feature[0] for feature in printed.features}
    assert [feature for feature in passed if last[feature[1:]] == "-"] == []


def test_features_that_only_the_name_implies_are_not_passed_when_the_name_is_not():
    # On AArch64 the compiler detects only a dozen features. A machine that hides `sve` may hide `i8mm` too.
    host = resolved("Graviton 3 without SVE")
    assert host is not None
    assert host.features == "+aes,+crc,+fp-armv8,+lse,+neon,+rand,+sha2,+sha3,+sm4,+reserve-x18"
    whole = resolved("Graviton 3")
    assert whole is not None
    assert "+i8mm" in whole.features.split(",")


@pytest.mark.parametrize("architecture", ["", "riscv64"])
def test_a_cpu_of_an_architecture_without_levels_has_no_name_where_features_are_hidden(architecture):
    host = cpu_features.PrintedCpu("x1", ("+v", "+m", "-v"), architecture)
    assert cpu_features.resolve(host, implied) is None
    assert cpu_features.resolve(cpu_features.PrintedCpu("x1", ("+v", "+m"), architecture), implied) == HostCpu(
        "x1", "+v,+m"
    )


def test_the_cpu_level_is_the_highest_one_that_is_fully_present():
    features = (*implied("skylake-avx512"), "-avx512f", "-avx2", "-popcnt")
    host = cpu_features.resolve(cpu_features.PrintedCpu("skylake-avx512", features, "x86_64"), implied)
    assert host is not None
    assert host.name == "x86-64"
    without = cpu_features.PrintedCpu("skylake-avx512", (*features, "-sse2"), "x86_64")
    assert cpu_features.resolve(without, implied) is None


@pytest.mark.parametrize("text", ["", 'cpu = "x"', "error: unknown CPU"])
def test_a_text_without_a_cpu_has_none(text):
    assert cpu_features.parse(text) is None


def test_the_last_flag_names_the_cpu():
    flags = (
        "--iree-llvmcpu-target-cpu=znver4",
        "--iree-llvmcpu-target-cpu=haswell",
        "--iree-llvmcpu-target-cpu-features=+a",
    )
    assert cpu_features.compiled_for(flags) == "haswell"
    assert cpu_features.compiled_for(("--iree-hal-target-device=cuda",)) is None
