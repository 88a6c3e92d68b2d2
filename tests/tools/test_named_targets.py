"""Targets such as `llvm-cpu-znver4` name a CPU or GPU as the compiler does."""

import pytest
from support.project import Project

from dispatchflow.errors import SpecError
from dispatchflow.iree.targets import TARGETS, named
from dispatchflow.planning import sweep_words


@pytest.mark.parametrize(
    ("name", "flag", "driver"),
    [
        ("llvm-cpu-znver4", "--iree-llvmcpu-target-cpu=znver4", "local"),
        ("llvm-cpu-skylake-avx512", "--iree-llvmcpu-target-cpu=skylake-avx512", "local"),
        ("cuda-sm_75", "--iree-cuda-target=sm_75", "cuda"),
        ("rocm-gfx950", "--iree-rocm-target=gfx950", "hip"),
    ],
)
def test_any_cpu_or_gpu_can_be_named_as_the_compiler_calls_it(name, flag, driver):
    target = named(name)
    assert (target.name, target.driver, target.gpu) == (name, driver, None)
    assert flag in target.flags


@pytest.mark.parametrize(
    "name",
    [
        *("cuda", "cuda-sm_90", "cuda-ampere", "cuda-native", "rocm-x", "rocm-host"),
        *("llvm-cpu-", "llvm-cpu-znver4-2t", "llvm-cpu-host", "llvm-cpu-native", "a-b"),
    ],
)
def test_other_words_name_no_target(name):
    assert named(name) is None


def test_word_for_this_machines_cpu_is_refused_with_the_target_that_resolves_it():
    with pytest.raises(SpecError) as caught:
        sweep_words.targets("llvm-cpu-host", "here")
    assert caught.value.hint == "This machine's CPU is llvm-cpu."


def test_targets_of_the_table_are_named_too():
    assert all(named(name) is target for name, target in TARGETS.items())


OTHERS = {
    "llvm-cpu-x86-64": (0, "1 case: 1 emitted, 1 compiled"),
    "llvm-cpu-diamondrapids": (0, "no device: this CPU has no "),
    "llvm-cpu-znver99": (2, "the compiler does not know 'llvm-cpu-znver99'"),
    "cuda-sm_999": (2, "Known targets of this backend: cuda-sm_80, cuda-sm_86"),
}


@pytest.mark.iree
@pytest.mark.parametrize("target", OTHERS)
def test_compiler_decides_which_cpus_and_gpus_outside_the_table_are_known(target, tmp_path):
    code, said = OTHERS[target]
    outcome = Project.make(tmp_path / "p").doit("m=4", "n=4", "k=4", "threads=1", f"target={target}", "verify")
    assert outcome.code == code, str(outcome)
    assert said in outcome.out + outcome.err
