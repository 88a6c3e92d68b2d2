"""How long and how often is measured. Versioned: a protocol that changes gets a new number, and so new keys."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Protocol:
    """A block is one benchmark process; blocks of pending cases interleave in rounds of random order.

    A case is decided when the half-width of its median's 95 % interval is within `precision`, or after `max_blocks`
    blocks or `budget_s` seconds of them: then it is `noisy`. Six blocks are the fewest that have such an interval.
    """

    name: str
    version: int
    warmup_s: float
    block_s: float
    min_blocks: int
    max_blocks: int
    budget_s: float
    precision: float

    @property
    def id(self) -> str:
        return f"{self.name}-{self.version}"


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol("fast", 1, warmup_s=0.02, block_s=0.03, min_blocks=6, max_blocks=8, budget_s=3.0, precision=0.05),
        Protocol("std", 1, warmup_s=0.05, block_s=0.1, min_blocks=6, max_blocks=20, budget_s=10.0, precision=0.01),
        Protocol(
            "thorough", 1, warmup_s=0.2, block_s=0.3, min_blocks=12, max_blocks=60, budget_s=90.0, precision=0.005
        ),
    )
}
