"""Rows have the same `program_digest` if they compute the same, and otherwise different ones.

The target, the tuning and the library do not affect it."""

import pytest

from dispatchflow.cases.dispatch import program_digest
from dispatchflow.cases.module import File, Module
from dispatchflow.keys import digest_of


@pytest.fixture
def programs(plan_of):
    def make(text, **overrides):
        return {case.name: program_digest(case.operation) for case in plan_of(text, **overrides).cases}

    return make


MATMUL = '[[sweep]]\noperation = "matmul"\nm = 64\nn = [64, 96]\nk = 64\nthreads = 1\n'


def test_tunings_flags_targets_providers_and_caches_do_not_change_the_digest(programs):
    many = 'tuning = ["default", "data_tiling"]\nflags = ["", "--iree-opt-level=O3"]\ntarget = ["llvm-cpu", "vmvx"]\n'
    found = programs(MATMUL + many + 'provider = ["iree", "numpy"]\ncache = ["hot", "cold"]\n')
    assert len(found) > 20
    assert len(set(found.values())) == 2


@pytest.mark.parametrize("word", ['dtype = "f16"', 'layout = "nt"', 'accumulate = "yes"', 'epilogue = "bias"'])
def test_changing_a_word_of_an_operation_changes_the_digest(programs, word):
    assert not set(programs(MATMUL).values()) & set(programs(f"{MATMUL}{word}\n").values())


def test_dynamic_sizes_change_the_digest_although_the_text_is_equal(programs):
    assert len(set(programs(f'{MATMUL}dynamic = "mnk"\n').values())) == 2


def of(source=b"text", path="a.mlir", entry="main", objects=()):
    return program_digest(Module(File(path, digest_of(source)), "title", entry, objects=objects))


def test_a_module_s_digest_depends_on_content_and_function_not_on_the_path():
    assert of() == of(path="elsewhere/b.mlir")
    linked = (("x.o", File("x.o", digest_of(b"1"))),)
    others = [of(b"other"), of(entry="other"), of(objects=linked), of(objects=(("x.o", File("x.o", digest_of(b"2"))),))]
    assert len({of(), *others}) == 5
