"""The row of a case has a status, and values from the case's records and measurement."""

import json
import sys
import time
from math import log

import pytest

from dispatchflow.iree.targets import TARGETS
from dispatchflow.measurement.calibration import Work, ceilings, compute_kind, processor
from dispatchflow.mlir.types import signature
from dispatchflow.operations import OPERATIONS
from dispatchflow.results import parquet, roofline, rows
from dispatchflow.results.parquet import COLUMNS, read, write_part
from dispatchflow.store.entries import Record

AROUND = {"host": "h", "cpu": "c", "protocol": "std-1", "run": "r"}


@pytest.fixture
def row(case_of, records, resolver_of):
    """Return a function that stores records about a case and returns the case's row."""

    def make(
        blocks=(),
        status="measured",
        verify=None,
        ceilings=(None, None),
        dispatches=None,
        session=None,
        noisy=0.05,
        **recorded,
    ):
        resolver, case = resolver_of(), case_of(threads=1)
        facts = {"code_digest": "d", "applied": "P matmul<x>", "compile_s": 0.5, "code_bytes": 9}
        facts["dispatches"] = [("pack", "P"), ("product", "P matmul<x>")]
        records.add(Record(resolver.chain(case)["compile"].key, "compile", facts=facts, **{"ok": True, **recorded}))
        inputs, expected = (
            resolver.supplies.inputs_action(case.operation),
            resolver.supplies.expected_action(case.operation),
        )
        names = [f"{recipe}_{i}" for recipe in ("exact", "wide", "random") for i in (0, 1)]
        records.add(Record(inputs.key, "inputs", True, outputs=dict.fromkeys(names, "d")))
        records.add(Record(expected.key, "expected", True, outputs={"exact": "d", "wide": "d"}))
        if verify is not None:
            ok, facts = verify
            records.add(
                Record(resolver.chain(case)["verify"].key, "verify", ok, None if ok else "differs", facts=facts)
            )
        if blocks:
            measurement = records.begin_measurement(resolver.chain(case)["profile"].key, {}, {}, "r")
            for number, ns in enumerate(blocks):
                records.add_block(measurement, number, ns, ns / 2, 0.1)
            records.end_measurement(
                measurement,
                status,
                None,
                {"cpus": [0], "load_1m": 0.5, "session": session}
                | ({"dispatches_ns": dispatches} if dispatches else {}),
            )
        around = rows.RowContext(resolver.toolchain, **AROUND)
        bounds = roofline.Roofline.of(case.operation, ceilings, 1.1, noisy)
        return rows.row_of(resolver.chain(case), ("tag",), bounds, around, time.time())

    return make


RIGHT = (True, {"verification": "equal", "score": 0.1})


def test_row_of_a_measured_case_has_its_times_rates_and_conditions(row):
    found = row([100.0, 105.0, 101.0, 103.0, 102.0, 104.0], verify=RIGHT)
    assert (found["status"], found["reason"], found["verification"]) == ("measured", None, "equal")
    assert (found["median_ns"], found["min_ns"]) == (102.5, 100)
    assert (found["ci_low_ns"], found["ci_high_ns"]) == pytest.approx((100, 105))
    assert found["within_session"] == pytest.approx(2.5 / 102.5)
    assert found["dispatch_ns"] == 51.25
    assert (found["m"], found["n"], found["k"], found["flops"]) == (4, 5, 6, 240)
    assert found["flops_per_s"] == pytest.approx(240 / 102.5e-9)
    assert found["traffic_bytes"] == 4 * (24 + 30 + 20)
    assert found["bytes_per_s"] == pytest.approx(296 / 102.5e-9)
    assert (found["cpus"], found["load_1m"], found["governor"]) == ([0], 0.5, None)
    assert (found["tags"], found["applied_configuration"]) == (["tag"], "P matmul<x>")
    assert set(found) <= set(COLUMNS)


def test_row_has_the_interval_for_another_session(row):
    moment = {
        "session_sd": 0.02, "case_sd": 0.01, "sessions": 12, "factor": 1.25, "factor_sd": 0.004,
        "anchors_ns": [1.25e6, 1.25e4], "reference_ns": [1e6, 1e4], "unusual": 0.2,
        "sensitivity": 2.0, "sensitivity_sd": 0.05, "freedom": 150.0,
    }  # fmt: skip
    found = row([100.0] * 9, verify=RIGHT, session=moment)
    assert found["session_factor"] == 1.25
    assert found["anchored_median_ns"] == pytest.approx(100 / 1.25**2)
    assert (found["sensitivity"], found["sensitivity_uncertainty"]) == (2.0, pytest.approx(1.96 * 0.05))
    assert (found["anchors_ns"], found["anchors_reference_ns"]) == ([1.25e6, 1.25e4], [1e6, 1e4])
    assert found["session_factor_uncertainty"] == pytest.approx(1.96 * 0.004)
    # The anchors were 20 % slower than usual, which this case feels twice. The next session is expected to be usual.
    felt = (2.0**2 + 0.05**2) * 0.02**2 * 13 / 12 + 0.05**2 * 0.2**2
    sd = (felt + 0.01**2) ** 0.5
    assert found["between_sessions"] == pytest.approx(2.0 * 0.2 + 1.75 * sd, rel=0.01)  # one-sided t of 15
    half = [log(found[f"{which}_high_ns"] / found[f"{which}_low_ns"]) / 2 for which in ("later", "anchored")]
    uncertain = 0.05**2 * (log(1.25) ** 2 + 0.02**2)
    assert half == pytest.approx([found["between_sessions"], 1.98 * (uncertain + 0.01**2) ** 0.5], rel=0.01)


def test_anchored_median_that_is_less_certain_is_not_stated(row):
    moment = {
        "session_sd": 0.02, "case_sd": 0.01, "sessions": 3, "factor": 1.25, "factor_sd": 0.004,
        "anchors_ns": [1.25e6, 1.25e4], "reference_ns": [1e6, 1e4],
    }  # fmt: skip
    found = row([100.0] * 9, verify=RIGHT, session=moment)  # an older record without a sensitivity: that of the prior
    assert found["sensitivity"] == 0.8
    assert not {"anchored_median_ns", "anchored_low_ns", "anchored_high_ns"} & set(found)


def test_row_of_a_machine_without_anchors_has_the_prior_of_other_sessions(row):
    moment = {"session_sd": 0.02, "case_sd": 0.01, "sessions": 0, "factor": None, "factor_sd": None}
    found = row([100.0] * 9, verify=RIGHT, session=moment)
    assert found["later_high_ns"] == pytest.approx(106.4, rel=0.01)
    assert found.get("session_factor") is None and found.get("anchored_median_ns") is None


def test_row_has_each_dispatch_in_the_dump_s_order_with_its_configuration_and_time(row):
    found = row([100.0] * 6, verify=RIGHT, dispatches={"product": [7.0, 5.0, 6.0], "pack": [2.0, 1.0, 3.0]})
    assert found["dispatches"] == ["pack", "product"]
    assert found["dispatch_configurations"] == ["P", "P matmul<x>"]
    assert found["dispatch_medians_ns"] == [2.0, 6.0]


@pytest.mark.parametrize("told", [None, {"product": [6.0]}])
def test_dispatch_without_a_reported_time_has_none(row, told):
    found = row([100.0] * 6, verify=RIGHT, dispatches=told)
    assert found["dispatches"] == ["pack", "product"]
    assert found["dispatch_medians_ns"] == [None, 6.0 if told else None]


def test_row_of_a_measured_case_passes_through_parquet_unchanged(row, tmp_path):
    found = row([100.0] * 6, verify=RIGHT)
    write_part(tmp_path / "a.parquet", [json.loads(json.dumps(found))])
    (back,) = read(tmp_path)
    times = {"measured_at", "recorded_at"}
    assert {name: back[name] for name in found if name not in times} == {
        n: v for n, v in found.items() if n not in times
    }


def _raise(*_):
    raise KeyError("rows")


@pytest.mark.parametrize("amount", ["flops", "traffic_bytes"])
@pytest.mark.parametrize(
    "method", [lambda _: 1.5, lambda _: "many", lambda _: 2**5000, lambda _: True, _raise, lambda _: sys.exit(3)]
)
def test_amount_that_is_not_an_integer_gives_a_cell_that_does_not_fit_and_no_rate(row, monkeypatch, amount, method):
    monkeypatch.setattr(OPERATIONS["matmul"], amount, method)
    found = row([100.0] * 6, verify=RIGHT, ceilings=(1e12, 1e12))
    assert parquet.mistyped_columns(found) == [amount]
    rate, other = ("flops_per_s", "bytes_per_s") if amount == "flops" else ("bytes_per_s", "flops_per_s")
    assert (found["status"], found["median_ns"], found[rate], found["bound"]) == ("measured", 100.0, None, None)
    assert found[other] > 0


def test_rate_above_the_ceiling_is_suspect(row):
    found = row([100.0] * 6, verify=RIGHT, ceilings=(1e9, None))
    assert found["status"] == "suspect"
    assert found["reason"] == "2.4e+09 flops_per_s is above this machine's ceiling, 1e+09"
    assert row([100.0] * 6, verify=RIGHT, ceilings=(2.4e9 / 1.09, None))["status"] == "measured"


@pytest.mark.parametrize(
    ("ceilings", "bound", "percent"),
    [
        ((2.4e9 * 2, 2.96e9 * 10), "compute", 50),
        ((2.4e9 * 10, 2.96e9 * 4), "memory", 25),
        ((None, 2.96e9), None, None),
        ((2.4e9, None), None, None),
    ],
)
def test_a_row_has_its_roofline_bound_and_percent_of_peak(row, ceilings, bound, percent):
    found = row([100.0] * 6, verify=RIGHT, ceilings=ceilings)
    assert found["bound"] == bound
    assert found["percent_of_peak"] == (None if percent is None else pytest.approx(percent))


def test_operation_without_flops_is_bound_by_memory():
    assert roofline.roofline(0, 100, (None, 1e9), 200.0) == {"bound": "memory", "percent_of_peak": 50}


F32 = OPERATIONS["matmul"].make((4, 5, 6)).signature
RATES = {"f32": 9e9, "cache": 4e9, "cache_read": 6e9, "memory": 2e9, "memory_read": 3e9}


@pytest.mark.parametrize(
    ("rates", "work", "bytes_per_s"),
    [
        (RATES, Work(F32, 1000, 500), 6e9),
        ({**RATES, "memory_read": 8e9}, Work(F32, 1000, 500), 8e9),
        (RATES, Work(F32, 2001, 500), 3e9),
        ({"f32": 9e9, "cache": 4e9}, Work(F32, 2001, 500), None),
        (RATES, Work(F32, 1000, 500, cold=True), 6e9),
        (RATES, Work(F32, 1000, 1000, cold=True), 3e9),
        ({"f32": 9e9}, Work(F32, 1000, 1000, cold=True), None),
    ],
)
def test_the_memory_ceiling_is_the_faster_rate_of_the_level_that_holds_the_data(rates, work, bytes_per_s):
    # A level has a rate of reading, and a rate of reading and writing. A cold case reads its inputs from memory.
    assert ceilings(rates, work, processor(TARGETS["llvm-cpu"], "avx2", 1000)) == (9e9, bytes_per_s)


@pytest.mark.parametrize(
    ("target", "cpu_flags", "bounded"),
    [
        ("llvm-cpu", "avx2 f16c", {"f32": "f32", "f64": "f64", "f16": "f32", "bf16": "f32"}),
        ("llvm-cpu", "avx512f avx512_bf16", {"f32": "f32", "f64": "f64", "f16": "f32", "bf16": None}),
        ("vulkan", "avx2", {"f32": "f32", "f64": "f64", "f16": None, "bf16": None}),
        ("cuda-sm_89", "avx2", {"f32": "f32", "f64": "f64", "f16": None, "bf16": None}),
        ("rocm-gfx942", "avx2", {"f32": None, "f64": None, "f16": None, "bf16": None}),
    ],
)
def test_multiply_adds_bound_only_types_without_a_faster_instruction(target, cpu_flags, bounded):
    # Dot products, matrix instructions and packed halves are faster. gfx942 has MFMA for f32 and f64.
    place = processor(TARGETS[target], cpu_flags, 2**20)
    types = {name: signature(f"{name},{name}->{'f64' if name == 'f64' else 'f32'}") for name in bounded}
    assert {name: compute_kind(types[name], place) for name in bounded} == bounded


def test_noisy_row_of_too_few_blocks_for_an_interval_says_so(row):
    found = row([90.0, 100.0, 110.0], status="noisy", verify=RIGHT)
    why = "3 blocks took all of the protocol's time, too few for an interval of the median"
    assert (found["status"], found["ci_low_ns"], found["reason"]) == ("noisy", None, why)


def test_noisy_row_says_how_noisy(row):
    found = row([90.0, 100.0, 100.0, 100.0, 100.0, 110.0], status="noisy", verify=RIGHT)
    assert (found["status"], found["reason"]) == ("noisy", "the median's interval is ±10.0% after 6 blocks")


def test_row_is_noisy_above_the_user_s_limit(row):
    blocks = [97.0, 103.0, 99.0, 101.0, 100.0, 98.0, 102.0, 100.0, 100.0]  # ± 2 %
    assert [row(blocks, verify=RIGHT, noisy=limit)["status"] for limit in (0.05, 0.01)] == ["measured", "noisy"]
    loud = [100.0, 120.0, 80.0, 110.0, 90.0, 100.0, 85.0, 115.0, 100.0]
    assert row(loud, status="noisy", verify=RIGHT, noisy=0.5)["status"] == "measured"


def test_row_is_written_again_once_another_version_of_the_verification_passed_it(
    case_of, records, resolver_of, monkeypatch
):
    verified = resolver_of().chain(case_of(threads=1))
    bounds = roofline.Roofline.of(verified.case.operation, (None, None), 1.1, 0.05)

    def identity():
        return rows.Row(verified, bounds, lambda chain, bounds: {}).identity

    now = identity()
    assert identity() == now
    monkeypatch.setattr(rows, "verification_version_of", lambda chain: 1)
    assert identity() != now


def test_wrong_result_is_a_failure(row):
    found = row(verify=(False, {"verification": "different", "worst_index": [0, 1]}))
    assert (found["status"], found["reason"], found["verification"]) == ("failed", "differs", "different")
    assert found["worst_index"] == [0, 1]
    assert found.get("median_ns") is None


def test_compile_that_failed_is_a_failure_that_was_not_compared(row):
    found = row(ok=False, reason="compile failed: no")
    assert (found["status"], found["reason"]) == ("failed", "compile failed: no")
    assert (found["verification"], found["measurement_key"]) == ("not compared", None)


def test_case_that_was_only_verified_is_not_measured(row):
    found = row(verify=RIGHT)
    assert found["status"] == "not measured"
    assert "never measured" in found["reason"]
