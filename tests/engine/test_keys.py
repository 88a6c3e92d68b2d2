"""The key of an action contains everything that decides the action's outputs, and nothing else.

An action is one step of the work, such as a compile. Its key is a hash."""

from dataclasses import dataclass
from importlib import import_module
from itertools import chain, product
from pathlib import Path
from typing import ClassVar

import pytest

from dispatchflow.cases.case import Case
from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.engine import actions, source_files
from dispatchflow.iree.release import NEWEST
from dispatchflow.iree.targets import Device
from dispatchflow.keys import Digest
from dispatchflow.operations import OPERATIONS
from dispatchflow.timing.protocols import PROTOCOLS
from dispatchflow.tunings import TUNINGS
from dispatchflow.tunings.default import Default

DATA = {"exact": ("d1", "d2"), "random": ("d3", "d4"), "expected_exact": ("d5",)}
DEVICE = {"uri": "local-sync", "cpu": "c", "features": "f", "microcode": "1"}


CALL = dict(code="c", function="main", arguments=("4x6xf32", "6x5xf32"), device=DEVICE, threads=1)
CALLS = [
    dict(code="c2"),
    dict(function="other"),
    dict(arguments=("6x4xf32", "6x5xf32")),
    dict(arguments=("4x6xf32",)),
    *(dict(device={**DEVICE, name: "other"}) for name in DEVICE),
    dict(device={**DEVICE, "runtime": "r"}),
    dict(threads=2),
]


def verification(code, function, arguments, device, threads, data, tolerance):
    call = actions.Call(code, function, Device(device["uri"], threads, (0,), device))
    return actions.verification(call, actions.Data(data, arguments), tolerance)


def measurement(code, function, arguments, device, threads, data, protocol, sets):
    call = actions.Call(code, function, Device(device["uri"], threads, (0,), device))
    return actions.measurement(call, actions.Data(data, arguments), protocol, sets)


def compilation(module, **shared):
    return actions.compilation(module, actions.compilations(**shared))


BASES = {
    compilation: dict(module="m", flags=("-a", "-b"), toolchain="t", environment={"LC_ALL": "C"}, requested=None),
    verification: dict(CALL, data=DATA, tolerance=None),
    measurement: dict(CALL, data={"random": ("d3", "d4")}, protocol=PROTOCOLS["std"], sets=None),
}
CHANGES = {
    compilation: [
        dict(module="m2"),
        dict(requested="r"),
        *(dict(flags=flags) for flags in [("-b", "-a"), ("-a",), ("-a", "-b", ""), ("-a-b",), ("-a -b",)]),
        dict(toolchain="t2"),
        *(dict(environment=e) for e in [{}, {"LC_ALL": "D"}, {"LC_ALL": "C", "LD_LIBRARY_PATH": ""}]),
    ],
    verification: [
        *CALLS,
        dict(tolerance="0.5"),
        *(dict(data={**DATA, name: ("other",)}) for name in DATA),
        dict(data={**DATA, "exact": ("d2", "d1")}),
        dict(data={**DATA, "expected_random": ("d6",)}),
    ],
    measurement: [
        *CALLS,
        dict(data={"random": ("d4", "d3")}),
        dict(data={"random": ("d3",)}),
        dict(data={"given": ("d3", "d4")}),
        *(dict(protocol=PROTOCOLS[name]) for name in PROTOCOLS if name != "std"),
        *(dict(sets=sets) for sets in (2, 3)),
    ],
}


@pytest.mark.parametrize("action", BASES, ids=lambda action: action.__name__)
def test_each_ingredient_changes_the_key(action):
    base = action(**BASES[action])
    assert set(chain.from_iterable(CHANGES[action])) == set(BASES[action])
    assert base.key == action(**BASES[action]).key
    others = [action(**BASES[action] | change).key for change in CHANGES[action]]
    assert len({base.key, *others}) == 1 + len(others)


def test_the_version_of_the_verification_changes_its_key(monkeypatch):
    before = verification(**BASES[verification]).key
    monkeypatch.setattr(actions, "VERIFICATION", actions.VERIFICATION + 1)
    assert verification(**BASES[verification]).key != before


@pytest.mark.parametrize("action", [actions.inputs, actions.expectation])
def test_operation_source_and_library_versions_enter_the_keys_of_data(action, case_of, monkeypatch):
    operation = case_of().operation
    found = [
        action(operation).key,
        action(case_of(layout="nt").operation).key,
        action(case_of(dtype="f16").operation).key,
    ]
    monkeypatch.setattr(source_files, "versions_of", lambda module: {"numpy": "0", "ml_dtypes": "0"})
    found.append(action(operation).key)
    monkeypatch.setattr(source_files, "versions_of", lambda module: {"numpy": "0", "ml_dtypes": "1"})
    found.append(action(operation).key)
    monkeypatch.setattr(actions, "sources", lambda *names: Digest("other"))
    found.append(action(operation).key)
    assert len(set(found)) == 6


def test_inputs_and_expected_results_have_separate_keys(case_of):
    operation = case_of().operation
    assert actions.inputs(operation).key != actions.expectation(operation).key


def test_source_of_data_is_the_text_of_the_modules_that_make_it(case_of, monkeypatch):
    modules, found, read = source_files.of_operation(type(case_of().operation).__module__), set(), Path.read_bytes
    names = ("matmul.py", "_contraction.py", "api.py", "inputs.py", "power.py", "reference.py", "types.py")
    for edited in ("none", *names):
        monkeypatch.setattr(Path, "read_bytes", lambda path, edited=edited: read(path) + b"#" * (path.name == edited))
        found.add(actions.sources.__wrapped__(*modules))
    assert len(found) == 1 + len(names)


def test_code_that_makes_all_inputs_is_among_the_sources_of_every_operation():
    makers = (
        import_module(f"dispatchflow.verification.{name}") for name in ("inputs", "power", "reference", "verdict")
    )
    modules = {getattr(value, "__module__", None) or "" for maker in makers for value in vars(maker).values()}
    used = {
        f"operations/{name.rpartition('.')[2]}.py" for name in modules if name.startswith("dispatchflow.operations._")
    }
    assert {"operations/_exact.py", "operations/_random.py", "operations/_range.py"} <= used
    for cls in OPERATIONS.values():
        assert used <= set(source_files.of_operation(cls.__module__)), cls.name


@pytest.mark.parametrize("statement", [
    "from dispatchflow.operations import _sums", "from . import _sums", "from ..operations import _sums",
    "import dispatchflow.operations._sums as sums", "import math; from dispatchflow.operations._sums import drift",
    "from dispatchflow.operations import (  # (helpers)\n    _option,\n    _sums,\n)",
    "from dispatchflow.operations import \\\n    _sums", "from dispatchflow import operations\noperations._sums.drift()",
    'importlib.import_module("dispatchflow.operations._sums")',
])  # fmt: skip
def test_a_helper_that_an_operation_imports_in_any_form_is_among_its_sources(statement, monkeypatch):
    monkeypatch.setattr(source_files, "_text", lambda name: statement if name == "operations/mine.py" else "")
    assert "operations/_sums.py" in source_files._imported.__wrapped__("operations/mine.py")


def test_a_data_file_that_an_operation_names_is_among_its_sources(tmp_path, monkeypatch):
    operations = tmp_path / "operations"
    operations.mkdir()
    (operations / "mine.py").write_text('TABLE = np.load(Path(__file__).with_name("table.npy"))')
    for name in ("table.npy", "other.npy"):
        (operations / name).write_bytes(b"\x93NUMPY")
    monkeypatch.setattr(source_files, "_ROOT", tmp_path)
    monkeypatch.setattr(source_files, "_ALWAYS", ())
    monkeypatch.setattr(source_files, "_text", source_files._text.__wrapped__)
    monkeypatch.setattr(source_files, "_imported", source_files._imported.__wrapped__)
    found = source_files.of_operation.__wrapped__("dispatchflow.operations.mine")
    assert "operations/table.npy" in found and "operations/other.npy" not in found
    assert set(source_files.versions_of.__wrapped__("dispatchflow.operations.mine")) == {"ml_dtypes", "numpy"}


@pytest.mark.parametrize(
    "text, packages",
    [
        ("import a, b.c as d", {"a", "b"}),
        ("    import a.b  # why, not", {"a"}),
        ("from a.b import (c,\n    d)\nfrom . import e\nfrom ..f import g", {"a"}),
    ],
)
def test_each_package_that_a_file_imports_is_found(text, packages):
    assert source_files._others(text) == packages


def test_the_emit_key_depends_only_on_the_text(case_of):
    base = actions.emit(case_of(), NEWEST).key
    assert actions.emit(case_of(threads=1, target="vmvx"), NEWEST).key == base
    changes = [dict(layout="nt"), dict(dtype="f16"), dict(shape="4x5x7"), dict(tuning="double_tiling_64x64_4x16x4")]
    others = {actions.emit(case_of(**change), NEWEST).key for change in changes}
    assert len(others | {base}) == 1 + len(changes)


@dataclass(frozen=True, slots=True)
class Renamed(Default):
    family: ClassVar[str] = "renamed"


def test_threads_and_the_tuning_s_name_do_not_enter_the_compile_key(case_of, resolver_of):
    case = case_of(threads=1)
    same = [
        case,
        case_of(threads=2),
        case_of(),
        Case(Dispatch(case.operation, Renamed()), case.target, 1),
    ]
    assert len({resolver_of().chain(c)["compile"].key for c in same}) == 1


def test_spec_file_and_tags_do_not_enter_a_case(plan_of):
    one = '[[sweep]]\noperation = "matmul"\nm = 8\nn = 8\nk = 8\n'
    assert plan_of(one).cases == plan_of("# moved\n\n" + one + 'tags = "x"\n').cases


def test_tuning_that_is_flags_only_changes_the_compile_key_and_not_the_module(case_of, resolver_of):
    default, packed = (resolver_of().chain(case_of(tuning=word)) for word in ("default", "data_tiling"))
    assert default["emit"].key == packed["emit"].key
    assert default["compile"].key != packed["compile"].key


def test_the_cpu_enters_the_compile_key_if_code_is_compiled_for_it(case_of, resolver_of):
    from dispatchflow.iree.cpu_features import HostCpu

    other = [HostCpu("znver4", "+avx,+avx2,+fma"), HostCpu("znver3", "+avx")]
    for target, count in (("llvm-cpu", 3), ("vmvx", 1)):
        case = case_of(target=target)
        found = {
            resolver_of().chain(case)["compile"].key,
            *(resolver_of(host=h).chain(case)["compile"].key for h in other),
        }
        assert len(found) == count


def test_all_tunings_of_a_case_share_its_data(case_of, resolver_of):
    tunings = [tuning for family in TUNINGS.values() for tuning in family.expand({})]
    operation = case_of(k=8).operation  # a multiple of split_k's slices
    cases = [
        Case(Dispatch(operation, tuning), case_of().target, threads) for tuning, threads in product(tunings, (1, 2))
    ]
    assert (
        len(
            {
                (
                    resolver_of().supplies.inputs_action(case.operation).key,
                    resolver_of().supplies.expected_action(case.operation).key,
                )
                for case in cases
            }
        )
        == 1
    )
