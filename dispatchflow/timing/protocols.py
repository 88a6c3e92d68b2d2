"""Protocols: how long and how often a case is measured.

They are versioned. A changed protocol gets a new number, which changes the keys."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a case is measured: in blocks, which are benchmark processes.

    The blocks of pending cases interleave in rounds, in random order."""

    name: str
    version: int
    warmup_s: float
    block_s: float
    blocks: int
    """The number of blocks, whatever their times are: stopping early would make intervals too narrow."""
    span_s: float
    """The shortest time from first to last round: blocks in close succession share the machine's state."""
    budget_s: float
    """The time for all blocks; a case for which it does not suffice has fewer blocks."""

    @property
    def id(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def pause_s(self) -> float:
        """The shortest time from the start of one round to the start of the next."""
        return self.span_s / max(1, self.blocks - 1)


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        # With these numbers of blocks, an interval between two sorted blocks has a confidence just above 95 %.
        Protocol("fast", 2, warmup_s=0.02, block_s=0.03, blocks=9, span_s=1.0, budget_s=3.0),
        Protocol("std", 2, warmup_s=0.05, block_s=0.1, blocks=15, span_s=8.0, budget_s=10.0),
        Protocol("thorough", 2, warmup_s=0.2, block_s=0.3, blocks=42, span_s=60.0, budget_s=90.0),
    )
}
