"""Derive the columns `status`, `verification` and `reason` of a row from the case's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dispatchflow.cases.known_failures import STATUS as KNOWN
from dispatchflow.cases.module import Module
from dispatchflow.engine.actions import VERIFICATION
from dispatchflow.results.roofline import Roofline

if TYPE_CHECKING:
    from dispatchflow.engine.state import CaseState
    from dispatchflow.store.entries import Measurement


def standing(chain: CaseState, bounds: Roofline) -> str:
    """Return the status for a case's row, such as `measured`.

    The status is `suspect` if the median is too short to be credible."""
    if chain.failure is not None:
        return "failed" if chain.known is None else KNOWN
    if chain["profile"].state == "absent":
        return "no device"
    found = measured(chain)
    if found is None or found.median_ns is None:
        return "not measured"
    if found.median_ns < bounds.credible_ns:
        return "suspect"
    if found.status == "failed":
        return found.status
    return "noisy" if found.noisy_above(bounds.noisy) else "measured"


def reason_of(chain: CaseState, status: str, reason: str | None) -> str | None:
    """Return the text for the column `reason` of a case's row; None if there is nothing to explain.

    The argument `reason` explains `status`. The returned text may also have remarks on the verdict, the
    measurement and the module."""
    verified, profiled = chain["verify"], chain["profile"]
    unsure = verified.state == "absent" or (verified.state == "off" and verification_of(chain) == "different")
    if reason is None and unsure:
        reason = verified.why
    if (doubt := profiled.doubt) is not None and status != "not measured":
        reason = "; ".join(filter(None, (reason, doubt)))
    emitted = chain["emit"].record if isinstance(chain.case.operation, Module) else None
    imported = emitted.facts.get("imported", {}) if emitted else {}
    converted = [f"converted from opset {opset}"] if (opset := imported.get("converted_from")) else []
    stored = stores(emitted.facts) if emitted else None
    stateful = [f"{stored}; verified for the first call"] if stored else []
    told = verified.record.facts.get("why") if verified.record else None
    if why := "; ".join([*filter(None, [told]), *converted, *stateful]):
        reason = why if status == "not measured" else "; ".join(filter(None, (why, reason)))
    return reason


def stores(facts: Mapping[str, Any]) -> str | None:
    """Return a remark if a module stores to globals; None if it does not.

    The remark warns that calls may differ, because a call may read what an earlier call stored. `facts` are the
    recorded facts of the module's stage `emit`."""
    found = facts.get("stored")
    return f"stateful: it stores to @{', @'.join(found)}, so calls may differ" if found else None


def verification_of(chain: CaseState) -> str:
    verified = chain["verify"]
    otherwise = "not verified" if verified.state == "off" else "not compared"
    found: str = verified.record.facts.get("verification", otherwise) if verified.record else otherwise
    return found


def verification_version_of(chain: CaseState) -> int | None:
    """Return the version of the verification that gave a case's verdict; None without a verdict.

    The version is a part of each verdict's key. Therefore only verdicts with the current version are found."""
    return VERIFICATION if chain["verify"].record else None


def measured(chain: CaseState) -> Measurement | None:
    step = chain["profile"]
    return step.measurement if step.state == "made" else None
