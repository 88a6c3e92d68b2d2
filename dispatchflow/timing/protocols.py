"""How long and how often is measured. Versioned: a protocol that changes gets a new number, and so new keys."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Protocol:
    """A block is one benchmark process; blocks of pending cases interleave in rounds of random order.

    A case takes `blocks` blocks, whatever they say: to stop as soon as an interval is narrow would make it too narrow.
    Fewer only where `budget_s` seconds of blocks are spent. From the first round to the last at least `span_s` seconds
    pass: blocks right after each other meet the same moment of the machine.
    """

    name: str
    version: int
    warmup_s: float
    block_s: float
    blocks: int
    span_s: float
    budget_s: float

    @property
    def id(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def pause_s(self) -> float:
        """From the beginning of one round to that of the next, at least."""
        return self.span_s / max(1, self.blocks - 1)


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        # Numbers of blocks at which two of them in order hold the median with little more than 95 %.
        Protocol("fast", 2, warmup_s=0.02, block_s=0.03, blocks=9, span_s=1.0, budget_s=3.0),
        Protocol("std", 2, warmup_s=0.05, block_s=0.1, blocks=15, span_s=8.0, budget_s=10.0),
        Protocol("thorough", 2, warmup_s=0.2, block_s=0.3, blocks=42, span_s=60.0, budget_s=90.0),
    )
}
