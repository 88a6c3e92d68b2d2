"""Make a row of the results in the form in which reports receive it."""

from dispatchflow.engine.actions import VERIFICATION


def row(case="c", tuning="default", median_ns=100.0, verification="equal", status="measured", **more):
    return {
        "case": case, "tuning": tuning, "median_ns": median_ns, "verification": verification, "status": status,
        "shape": "s", "target": "llvm-cpu", "threads": 1, "protocol": "std-1", "flops_per_s": 2e9, "reason": None,
        "applied_configuration": None, "rounds": "run/1", "verification_version": VERIFICATION,
        "ci_low_ns": median_ns and median_ns * 0.99, "ci_high_ns": median_ns and median_ns * 1.01,
        "blocks_ns": median_ns and [median_ns] * 15,
    } | more  # fmt: skip
