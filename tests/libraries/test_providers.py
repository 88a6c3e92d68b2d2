"""What libraries compute instead of IREE: every (operation, library) pair is right, or a skip with a reason."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.product import SHAPES_OF, chosen_of, operation_of
from support.project import LIMIT_S, Project, environment

from dispatchflow.cases import rotating_inputs
from dispatchflow.cases.provider import call_text, unsupported
from dispatchflow.iree.targets import TARGETS
from dispatchflow.keys import Digest
from dispatchflow.libraries import _harness, installed, providers
from dispatchflow.libraries.installed import Installed
from dispatchflow.libraries.providers import LIBRARIES, Library
from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.project.workspace import Workspace
from dispatchflow.store.records import Record
from dispatchflow.verification import inputs, reference, verdict

pytest_plugins = ["support.project"]

SMALL = ((7, 5, 9, 6), (1, 5, 7, 3))
"""No two dims alike, and a dim of 1: in a library nothing depends on how large they are."""
HARNESSES: dict[str, Any] = {"numpy": _harness.Numpy, "torch": _harness.Torch}


@pytest.fixture(scope="session", params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Library:
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return LIBRARIES[request.param]


def every(cls: type[Operation]) -> Iterator[Operation]:
    """Each type and layout with each value of each option, and both shapes."""
    shapes = SHAPES_OF.get(cls.name, SMALL)
    for signature, layout, chosen, shape in product(cls.signatures, cls.layouts, chosen_of(cls), shapes):
        yield operation_of(cls, shape, signature, layout, chosen)


def computed(library: Library, operation: Operation, recipe: str) -> np.ndarray:
    """As `libraries/_harness.py` does, but for the process of its own."""
    harness = HARNESSES[library.name]("cpu", 1)
    names: dict[str, Any] = {}
    exec(call_text(library, operation), names)
    operands = [
        harness.read(operand.type.element.numpy_name, operand.type.shape, bytearray(array.tobytes()))
        for operand, array in zip(operation.operands(), inputs.made(operation, recipe), strict=True)
    ]
    content = harness.content(names["main"](*operands))
    result = operation.result()
    return np.frombuffer(content, inputs.dtype_of(result.element)).reshape(result.shape)


def verdicts(library: Library, operation: Operation) -> Iterator[verdict.Verdict]:
    for recipe in operation.recipes:
        if recipe == "exact" and inputs.mistrust(operation):
            continue
        got, operands = computed(library, operation, recipe), inputs.made(operation, recipe)
        if recipe == "exact" or operation.bitwise:
            yield verdict.compare_bits(got, reference.expected(operation, operands))
        else:
            yield verdict.compare_bounded(got, *reference.bounds(operation, operands, recipe))


@pytest.mark.parametrize("cls", OPERATIONS.values(), ids=lambda cls: cls.name)
def test_every_call_is_right_or_a_skip(cls: type[Operation], library: Library) -> None:
    wrong = []
    for operation in every(cls):
        reason = unsupported(library, operation, TARGETS["llvm-cpu"])
        if reason is not None:
            assert reason
            continue
        try:
            found = [v for v in verdicts(library, operation) if not v.passed]
        except Exception as error:
            found = [error]
        wrong += [
            f"{operation.shape_name}: {call_text(library, operation).splitlines()[-1].strip()}: {v}" for v in found
        ]

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("mask", ["no", "yes"])
@pytest.mark.parametrize("keys", [7, 9])
def test_causal_attention_counts_from_the_last_key(keys: int, mask: str, library: Library) -> None:
    """With as many queries as keys, PyTorch's own `is_causal` is the same."""
    attention = OPERATIONS["attention"].make((2, 7, 5, 4, keys), mask=mask, causal="yes")

    assert unsupported(library, attention, TARGETS["llvm-cpu"]) is None
    assert all(found.passed for found in verdicts(library, attention))
    native = library.name == "torch" and keys == 7 and mask == "no"
    assert ("is_causal" in call_text(library, attention)) == native


def test_a_dynamic_product_has_the_call_of_the_static_one(library: Library) -> None:
    """As it has the same inputs, it is measured once."""
    for cls, sizes in ((OPERATIONS["matmul"], (3, 5, 7)), (OPERATIONS["batch_matmul"], (2, 3, 5, 7))):
        static = cls.make(sizes, epilogue="bias")
        for words in cls.options["dynamic"].values:
            dynamic = cls.make(sizes, epilogue="bias", dynamic=words)
            assert unsupported(library, dynamic, TARGETS["llvm-cpu"]) is None
            assert call_text(library, dynamic) == call_text(library, static)
            assert all(found.passed for found in verdicts(library, dynamic))


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("name", ["conv2d", "depthwise_conv2d", "pooling", "quantized_conv2d"])
def test_windows_of_numpy_see_what_those_of_the_reference_see(name: str, padding: int, dilation: int) -> None:
    cls, numpy = OPERATIONS[name], LIBRARIES["numpy"]
    sizes = {"n": 2, "h": 9, "w": 8, "c": 3, "f": 4, "kh": 3, "kw": 2}
    for layout, kind in product(cls.layouts, cls.options["kind"].values if "kind" in cls.options else [None]):
        words = {"stride": 2, "padding": padding, "dilation": dilation} | ({"kind": kind} if kind else {})
        operation = cls.make([sizes[dim] for dim in cls.dims], layout=layout, **words)

        assert unsupported(numpy, operation, TARGETS["llvm-cpu"]) is None
        assert all(found.passed for found in verdicts(numpy, operation)), call_text(numpy, operation)


def test_a_call_that_does_not_heed_an_option_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    cls, numpy = OPERATIONS["matmul"], LIBRARIES["numpy"]
    accumulating = cls.make((4, 5, 6), accumulate="yes")
    assert unsupported(numpy, accumulating, TARGETS["llvm-cpu"]) is None

    monkeypatch.setattr(cls, "library_options", ())

    assert unsupported(numpy, accumulating, TARGETS["llvm-cpu"]) == (
        "what numpy calls for matmul with another accumulate than no is not written"
    )
    assert unsupported(numpy, cls.make((4, 5, 6)), TARGETS["llvm-cpu"]) is None


def test_an_operation_without_a_call_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPERATIONS["softmax"], "library_call", Operation.library_call)

    softmax = OPERATIONS["softmax"].make((4, 5))

    assert (
        unsupported(LIBRARIES["numpy"], softmax, TARGETS["llvm-cpu"]) == "what numpy calls for softmax is not written"
    )


# --- the plan


def test_a_library_is_one_way_beside_all_tunings(plan_of: Any) -> None:
    plan = plan_of(SPEC.format('provider = ["iree", "numpy"]', 'tuning = ["default", "data_tiling"]'))
    assert [case.name.split("f32t_")[-1] for case in plan.cases] == [
        "default@llvm-cpu-1t", "data_tiling@llvm-cpu-1t", "numpy@llvm-cpu-1t",
    ]  # fmt: skip


def test_hot_and_cold_stand_side_by_side(plan_of: Any) -> None:
    plan = plan_of(SPEC.format('provider = "numpy"', 'cache = ["hot", "cold"]'))
    assert [case.name.split("@")[1] for case in plan.cases] == ["llvm-cpu-1t", "llvm-cpu-1t-cold"]


def test_what_a_library_cannot_do_is_a_skip(plan_of: Any) -> None:
    plan = plan_of(SPEC.format('provider = ["numpy", "torch"]', 'target = ["vulkan", "cuda-sm_80"]'))
    assert [case.name.split("f32t_")[-1] for case in plan.cases] == ["torch@cuda-sm_80"]
    assert [skip.reason for skip in plan.skips] == [
        "numpy does not run on vulkan", "numpy does not run on cuda-sm_80", "torch does not run on vulkan",
    ]  # fmt: skip


def test_a_library_that_is_not_installed_is_a_skip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(installed, "library", lambda name: None)
    words = dict.fromkeys("mnk", "8") | {"threads": "1", "provider": "torch"}
    (skip,) = Workspace(tmp_path, words).plan.skips
    assert skip.reason == "torch is not installed; pip install 'dispatchflow[torch]'"


SPEC = '[[sweep]]\noperation = "matmul"\nshape = "4x5x6"\nthreads = 1\n{}\n{}\n'


# --- keys


SOME = Installed("1.0", Digest("d"), "/somewhere")


@pytest.fixture
def keys_of(case_of: Any, resolver_of: Any, records: Any) -> Any:
    """(verify, profile) keys of a case whose data is recorded."""

    def make(library: Installed = SOME, **words: Any) -> tuple[Any, Any]:
        case = case_of(threads=1, **{"provider": "numpy", **words})
        resolver = resolver_of(installed=lambda name: library, cache_bytes=2**20)
        actions = resolver.supplies.actions(case.operation)
        names = [f"{recipe}_{i}" for recipe in case.operation.recipes for i in (0, 1)]
        for action in actions:
            records.add(Record(action.key, action.stage, True, outputs=dict.fromkeys(names, "d")))
        chain = resolver.chain(case)
        return chain["verify"].key, chain["profile"].key

    return make


def test_keys_of_a_library_are_of_its_code_and_of_the_call(keys_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    base = keys_of()
    others = [
        keys_of(Installed("1.1", Digest("d"), "/somewhere")),
        keys_of(Installed("1.0", Digest("d2"), "/somewhere")),
        keys_of(layout="tn"),
    ]
    monkeypatch.setattr(providers, "HARNESS", providers.HARNESS + 1)
    others.append(keys_of())
    for position in (0, 1):
        assert None not in (found := [base[position], *(other[position] for other in others)])
        assert len(set(found)) == len(found)
    monkeypatch.undo()
    assert keys_of(Installed("1.0", Digest("d"), "/elsewhere")) == base


def test_hot_and_cold_are_verified_once_and_measured_each(keys_of: Any) -> None:
    hot, cold = keys_of(), keys_of(cache="cold")
    assert hot[0] == cold[0]
    assert hot[1] != cold[1]


def test_libraries_that_a_library_may_load_are_part_of_its_device_and_not_of_the_compiler_s(
    case_of: Any, resolver_of: Any
) -> None:
    case, ours = case_of(threads=1, provider="numpy"), case_of(threads=1)
    environments = [{"LC_ALL": "C"}, {"LC_ALL": "C", "LD_LIBRARY_PATH": ""}, {"LC_ALL": "C", "LD_LIBRARY_PATH": "/a"}]
    without, empty, given = (resolver_of(installed=lambda name: SOME, environment=each) for each in environments)
    identity = without.chain(case).device.identity
    assert "LD_LIBRARY_PATH" not in identity
    assert empty.chain(case).device.identity == identity
    assert given.chain(case).device.identity == {**identity, "LD_LIBRARY_PATH": "/a"}
    assert given.chain(ours).device == without.chain(ours).device


@pytest.mark.parametrize("records", ["nothing", "its own", "BLAS too"])
def test_blas_that_no_installer_recorded_is_part_of_the_digest(
    records: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of packages of Debian, of conda and of PyPI."""
    own = {
        "its own": "numbers/a.so,sha256=1,9\n",
        "BLAS too": "numbers/a.so,sha256=1,9\nnumbers.libs/libblas.so,sha256=2,9\n",
    }
    for name, text in {
        "numbers-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: numbers\nVersion: 1\n",
        "numbers-1.dist-info/RECORD": own.get(records, ""), "numbers/a.so": "a", "lib/libblas-1.so": "b",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "lib/libblas.so.3").symlink_to("libblas-1.so")
    (tmp_path / "lib/libblas-2.so").write_text("other")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(installed, "_FOLDERS", (tmp_path / "lib",))

    def digest() -> str:
        installed.library.cache_clear()
        found = installed.library("numbers")
        assert found is not None
        return found.digest

    before = digest()
    assert digest() == before
    (tmp_path / "lib/libblas.so.3").unlink()
    (tmp_path / "lib/libblas.so.3").symlink_to("libblas-2.so")  # as `update-alternatives` does
    changed = digest()
    assert (changed != before) == (records != "BLAS too")
    (tmp_path / "numbers/a.so").write_text("another")
    assert (digest() != changed) == (records == "nothing")
    installed.library.cache_clear()


def test_what_is_installed_has_its_own_version_and_one_digest() -> None:
    found = installed.library("numpy")
    assert found is not None
    assert found.version == np.__version__
    assert (Path(found.folder) / "numpy").is_dir()
    assert installed.library("no-such-library") is None


# --- with the real tools


@pytest.mark.iree
def test_libraries_and_cold_inputs_beside_iree(copied: Project) -> None:
    words = ("m=16", "n=16", "k=16", "threads=1", "provider=iree,numpy", "cache=hot,cold", "protocol=fast")
    made, outcome = copied.made_by(*words)
    rows = {row["case"].partition("f32t_f32t_f32t_")[2]: row for row in copied.rows() if row["m"] == 16}

    # numpy is verified once for hot and cold; IREE's hot case was made before.
    assert (made["emit"], made["verify"]) == (1, 1), str(outcome)
    hot, cold = rows["numpy@llvm-cpu-1t"], rows["numpy@llvm-cpu-1t-cold"]
    assert (hot["cache"], cold["cache"]) == ("hot", "cold")
    for row in (hot, cold):
        assert row["verification"] == "within bound"
        assert (row["provider"], row["runtime_version"]) == ("numpy", np.__version__)
        assert (row["tuning"], row["toolchain_version"], row["compile_key"]) == (None, None, None)
        assert len(row["blocks_ns"]) >= 6
    assert rows["default@llvm-cpu-1t-cold"]["code_digest"] == rows["default@llvm-cpu-1t"]["code_digest"]
    assert rows["default@llvm-cpu-1t"]["bound"] in ("compute", "memory")
    assert rows["default@llvm-cpu-1t"]["percent_of_peak"] > 0
    assert f"numpy {np.__version__}" in outcome.out

    assert copied.made_by(*words)[0] == {"emit": 0, "compile": 0, "verify": 0, "profile": 0}
    shown = copied.doit("report", "*16x16x16*", "format=jsonl", "columns=case,status,percent_of_best_provider").out
    parts = [line["percent_of_best_provider"] for line in map(json.loads, shown.splitlines())]
    assert max(part for part in parts if part is not None) == 100
    view = copied.root / "build" / hot["case"]
    assert "x0 @ x1" in (view / "call.py").read_text()
    subprocess.run([view / "repro.sh", "run"], check=True, timeout=LIMIT_S, env=environment({}))
    cold_view = copied.root / "build" / rows["default@llvm-cpu-1t-cold"]["case"]
    subprocess.run([cold_view / "repro.sh", "benchmark"], check=True, timeout=LIMIT_S, env=environment({}))
    assert "--module=rotation.vmfb" in (cold_view / "repro.sh").read_text()
    assert len((view / "again.bin").read_bytes()) == 16 * 16 * 4


@pytest.mark.iree
def test_each_call_of_a_rotation_takes_the_next_copy(tmp_path: Path) -> None:
    """Through the runtime's Python, whose module stays loaded. In a second rotation all copies of the first operand but
    the first one are made zeros, which tells them apart. An operand of 24 elements ends inside of a line of the cache."""
    import iree.runtime

    workspace = Workspace(tmp_path, dict.fromkeys("m", "4") | {"n": "5", "k": "6", "threads": "1"})
    (case,) = workspace.plan.cases
    flags = TARGETS["llvm-cpu"].resolved_flags(workspace.resolver.host, workspace.resolver.syntax)
    text = rotating_inputs.module(case.operation, 3)
    whole = "linalg.broadcast ins(%x : tensor<128xi8>) outs(%empty : tensor<3x128xi8>) dimensions = [0]"
    marked = """\
tensor.expand_shape %x [[0, 1]] output_shape [1, 128] : tensor<128xi8> into tensor<1x128xi8>
    %one = tensor.pad %all low[0, 0] high[2, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %padding : i8
    } : tensor<1x128xi8> to tensor<3x128xi8>"""
    before, found, after = text.partition(whole)
    assert found
    rest = after.replace("%all :", "%one :", 1)
    turns = [workspace.executor.compile_module(t.encode(), flags) for t in (text, before + marked + rest)]
    compiled = workspace.executor.compile(case)
    operands = inputs.random(case.operation)
    results = []
    for record in turns:
        assert record.ok, record.reason
        config = iree.runtime.Config("local-sync")
        modules = [
            iree.runtime.VmModule.copy_buffer(config.vm_instance, workspace.store.path(digest).read_bytes())
            for digest in (compiled.outputs["vmfb"], record.outputs["vmfb"])
        ]
        plain, rotating = iree.runtime.load_vm_modules(*modules, config=config)
        expected = plain["main"](*operands).to_host()
        nothing = [np.zeros_like(operand) for operand in operands]  # the copies are those of the first call
        given = [operands, *[nothing] * 6]
        found_each = [rotating["main"](*each).to_host() for each in given]
        results.append([bool((each == expected).all()) for each in found_each])

    assert results[0] == [True] * 7
    assert results[1] == [True, False, False, True, False, False, True]


def test_copies_take_twice_the_cache_and_are_two_at_least() -> None:
    small, large = OPERATIONS["matmul"].make((4, 5, 6)), OPERATIONS["matmul"].make((512, 512, 512))
    assert rotating_inputs.sets(small, 2**20) == 2**21 // (128 + 128)
    assert rotating_inputs.sets(large, 2**20) == 2


@pytest.mark.parametrize(
    ("target", "cache_bytes", "memory_bytes", "reason"),
    [
        ("llvm-cpu", 2**25, 2**33, None),
        ("llvm-cpu", None, 2**33, "not coldable: the system does not tell the size of the last-level cache"),
        ("llvm-cpu", 480 * 2**20, 2**31, "not coldable: 960 MiB of inputs"),
        ("vulkan", 2**25, 2**33, "not coldable: the size of the last cache of vulkan devices is not known"),
    ],
)
def test_what_cannot_be_cold_says_why(
    target: str, cache_bytes: int | None, memory_bytes: int, reason: str | None
) -> None:
    matmul = OPERATIONS["matmul"].make((64, 64, 64))
    found = rotating_inputs.not_coldable(matmul, TARGETS[target], cache_bytes, memory_bytes)
    assert found == reason if reason is None else (found or "").startswith(reason)


def test_rotation_is_the_golden_one(golden: Any) -> None:
    golden("rotation.mlir", rotating_inputs.module(OPERATIONS["matmul"].make((4, 5, 6)), 3))
