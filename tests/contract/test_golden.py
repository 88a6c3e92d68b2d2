"""Modules, ingredients of keys, command lines and columns of results equal files in tests/golden/.

The ingredients of a key are everything that decides the output of a stage."""

import json
import re
from dataclasses import asdict, replace

import pytest

from dispatchflow.cases.dispatch import Dispatch
from dispatchflow.engine import actions, source_files
from dispatchflow.iree import command_lines
from dispatchflow.operations import OPERATIONS
from dispatchflow.operations.matmul import Matmul
from dispatchflow.results import parquet
from dispatchflow.results.site_rows import SITE_ROWS
from dispatchflow.store.entries import Record
from dispatchflow.timing.protocols import PROTOCOLS
from dispatchflow.tunings import TUNINGS

DISPATCHES = {
    **{f"matmul_{dtype}": {"dtype": dtype} for dtype in Matmul.signatures},
    **{f"matmul_f32_{layout}": {"layout": layout} for layout in Matmul.layouts[1:]},
    "matmul_f32_data_tiling": {"tuning": "data_tiling"},
    "matmul_f16_f32_cast": {"dtype": "f16_f32", "epilogue": "cast"},
    "matmul_f16_f32_f16_bias_relu": {"dtype": "f16_f32_f16", "epilogue": "bias+relu"},
    "matmul_f32_split_k": {"tuning": "split_k_2"},
    "matmul_f32_double_tiling": {"tuning": "double_tiling_64x64_4x16x4"},
    "matmul_f16_f32_f16_nn_double_tiling_cache": {
        "tuning": "double_tiling_128x128_4x16x4_cache_64x64",
        "dtype": "f16_f32_f16",
        "layout": "nn",
    },
}
_CONVOLUTION = {"operation": "conv2d", "tuning": "conv_tile_and_decompose_1x8x32x64_1x2x8x16_3x1x4"}
_CUDA = {"target": "cuda-sm_80", "dtype": "f16_f32"}
_CUDA_TILE = "64x64x32_2x2_NV_MMA_SYNC_F32_16x8x16_F16"
TUNED = {
    "conv2d_tile_and_decompose": {**_CONVOLUTION, "shape": "2x34x34x64x32x3x3", "layout": "nchw_fchw"},
    "conv2d_tile_and_decompose_one_image": {**_CONVOLUTION, "shape": "1x34x34x64x32x3x3"},
    "depthwise_conv2d_tile_and_decompose": {**_CONVOLUTION, "operation": "depthwise_conv2d", "shape": "2x34x34x64x3x3"},
    "pooling_tile_and_decompose": {**_CONVOLUTION, "operation": "pooling", "shape": "2x34x34x64x3x3"},
    "batch_matmul_double_tiling_cache": {
        "operation": "batch_matmul",
        "shape": "4x64x64x64",
        "tuning": "double_tiling_64x64_8x32x1_cache_64x32x16",
    },
    "vecmat_double_tiling": {"operation": "vecmat", "shape": "64x64", "tuning": "double_tiling_64x32_8x16x4"},
    "matmul_tile_and_fuse": {**_CUDA, "shape": "128x128x128", "tuning": f"tile_and_fuse_{_CUDA_TILE}"},
    "matmul_vector_distribute": {**_CUDA, "shape": "128x128x128", "tuning": f"vector_distribute_{_CUDA_TILE}"},
    "matmul_base_vectorize": {"target": "vulkan", "shape": "64x64x64", "tuning": "base_vectorize_32x64_4x8x4"},
    "batch_matmul_vector_distribute_stages": {
        "operation": "batch_matmul",
        "shape": "4x128x128x128",
        "dtype": "bf16",
        "target": "rocm-gfx942",
        "tuning": "vector_distribute_64x64x32_2x2_promote_0_stages_3_MFMA_F32_16x16x16_BF16",
    },
}
"""The tuned cases with golden files, except the matmuls on a CPU, which are in `DISPATCHES`.

A dict from a golden file's name to the keys and values of the case's sweep."""
SIZES = {"matmul_splitk": 12, "scaled_matmul": 32}
"""A dict from an operation's name to the size of each of its dims, if the size is not 4."""
DEFAULTS = {cls: cls.make([SIZES.get(cls.name, 4)] * len(cls.dims)) for cls in OPERATIONS.values()}
OPERATIONS_MODULES = {
    operation.shape_name: operation
    for cls, default in DEFAULTS.items()
    for operation in [
        *([] if cls is Matmul else [default]),
        *[replace(default, layout=layout) for layout in cls.layouts[1:] if cls is not Matmul],
        *[
            replace(default, chosen=(*default.chosen[:i], value, *default.chosen[i + 1 :]))
            for i, option in enumerate(cls.options.values())
            for value in (option.values[1:2] if isinstance(option.values, range) else option.values[1:])
        ],
    ]
    if operation.illegal("llvm-cpu") is None
}
"""A dict from a golden file's name to the operation whose emitted module the file contains.

In each operation, either the layout or one option may differ from the default."""
MODULES = [*DISPATCHES, *TUNED, *OPERATIONS_MODULES]
ACTIONS = {
    "default": {"threads": 1},
    "data_tiling": {"threads": 1, "tuning": "data_tiling", "dtype": "i8"},
    "double_tiling": {"tuning": "double_tiling_64x64_4x16x4"},
    "vmvx": {"threads": 1, "target": "vmvx"},
}


@pytest.fixture
def module_of(case_of):
    def text(name):
        if name in DISPATCHES:
            return case_of(**DISPATCHES[name]).dispatch.module()
        if name in TUNED:
            return case_of(**TUNED[name]).dispatch.module()
        return Dispatch(OPERATIONS_MODULES[name], TUNINGS["default"].expand({})[0]).module()

    return text


@pytest.mark.parametrize("name", MODULES)
def test_module_is_the_golden_one(name, module_of, golden):
    golden(f"{name}.mlir", module_of(name))


def test_golden_modules_show_every_family_signature_and_layout(case_of):
    cases = [case_of(**words) for words in DISPATCHES.values()]
    tuned = {case_of(**words).tuning.family for words in TUNED.values()}
    assert {case.tuning.family for case in cases} | tuned == {
        name for name, family in TUNINGS.items() if family.expand({})
    }
    assert {case.operation.signature for case in cases} == set(Matmul.signatures.values())
    assert {case.operation.layout for case in cases} == set(Matmul.layouts)


@pytest.mark.parametrize("name", MODULES)
def test_every_location_in_a_module_is_unknown(name, module_of):
    text = module_of(name)
    lines = [line.strip() for line in text.splitlines() if not line.startswith("#")]
    opening = [line for line in lines if line.endswith(("{", ":"))]
    assert all(line.endswith(" loc(unknown)") for line in lines if line not in opening)
    assert sum(line.startswith("}") for line in lines) == sum(line.endswith("{") for line in opening)
    assert set(re.findall(r"loc\(.*?\)", text)) == {"loc(unknown)"}
    arguments = re.findall(r"%\w+: ?[^ ,)]+( loc\(unknown\))?", "\n".join(opening))
    assert len(arguments) >= 1
    assert all(arguments)


@pytest.mark.parametrize("name", MODULES)
def test_module_has_no_path_no_date_and_no_name(name, module_of):
    text = module_of(name)
    assert not re.search(r'[/\\"]|\b20\d\d', re.sub(r'"(parallel|reduction|iree_linalg_ext\.\w+)"', "", text))
    assert set(re.findall(r"@(\w+)", text)) == {"dispatch", "main"}
    assert text.isascii()


@pytest.mark.parametrize("name", ACTIONS)
def test_ingredients_of_a_case_s_actions_are_the_golden_ones(name, case_of, records, resolver_of, golden, monkeypatch):
    monkeypatch.setattr(actions, "sources", lambda *names: f"digest of {', '.join(names)}")
    monkeypatch.setattr(source_files, "versions_of", lambda module: {"numpy": "version", "ml_dtypes": "version"})
    case, resolver = case_of(**ACTIONS[name]), resolver_of()
    compile_key = resolver.chain(case)["compile"].key
    records.add(Record(compile_key, "compile", True, facts={"code_digest": "digest of the code"}))
    inputs, expected = (
        resolver.supplies.inputs_action(case.operation),
        resolver.supplies.expected_action(case.operation),
    )
    operands = {f"{recipe}_{i}": f"digest of {recipe} {i}" for recipe in case.operation.recipes for i in (0, 1)}
    records.add(Record(inputs.key, "inputs", True, outputs=operands))
    floats = ("exact", "wide", "random_reference", "random_tolerance")
    names = ("exact", "random") if "i8" in case.name else floats
    records.add(Record(expected.key, "expected", True, outputs={name: f"digest of {name}" for name in names}))
    chain = resolver.chain(case)
    found = [*(chain[stage].action for stage in ("emit", "compile")), inputs, expected]
    found += [chain[stage].action for stage in ("verify", "profile")]
    told = {action.stage: {"key": action.key, **action.ingredients} for action in found}
    golden(f"{name}.actions.json", json.dumps({"case": case.name, **told}, indent=2) + "\n")


def test_command_lines_are_the_golden_ones(case_of, golden):
    # Keys do not contain these arguments. If an argument changes, raise the number of the schema or the protocol.
    operation, protocol = case_of().operation, PROTOCOLS["std"]
    given = [f"{o.type.spelling}=@{file}" for o, file in zip(operation.operands(), ("a.bin", "b.bin"), strict=True)]
    lines = {
        "environment": command_lines.environment(
            {"LD_LIBRARY_PATH": "lib", "HOME": "home", "IREE_LLVM_EMBEDDED_LINKER_PATH": "x"}
        ),
        "compile": command_lines.compile_argv("iree-compile", ["--flag"]),
        "run": command_lines.run_argv(
            "iree-run-module", "module.vmfb", command_lines.device_flags("local-sync", [3]), given
        ),
        "block": command_lines.block_argv(
            "tool", "module.vmfb", command_lines.device_flags("local-task", [2, 3]), given, protocol
        ),
        "next block": command_lines.block_argv(
            "tool", "module.vmfb", (), given, protocol, iterations=7, dispatches=False
        ),
    }
    golden("commands.json", json.dumps(lines, indent=2) + "\n")


def test_protocols_are_the_golden_ones(golden):
    # Keys contain a protocol's version, not its numbers. If a number changes, raise the version.
    protocols = {protocol.id: asdict(protocol) for protocol in PROTOCOLS.values()}
    golden("protocols.json", json.dumps(protocols, indent=2) + "\n")


def test_columns_are_the_golden_ones(golden):
    # Lines may be added to these golden files, but never changed or removed.
    golden("columns.json", json.dumps(parquet.COLUMNS, indent=2) + "\n")
    golden("site_columns.json", json.dumps(dict(SITE_ROWS.columns), indent=2) + "\n")
