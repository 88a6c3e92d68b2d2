"""Protocols: how long and how often a case is measured.

A changed protocol needs a new `version`, because the keys of measurements contain the version."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Protocol:
    """The number of blocks that are measured for a case, and their length.

    A block is one benchmark process. A round has one block of each case."""

    name: str
    version: int
    warmup_s: float
    block_s: float
    blocks: int
    """The number of blocks. A number that depends on the results would make intervals too narrow."""
    span_s: float
    """The shortest time from the first round to the last."""
    budget_s: float
    """The longest time for all blocks of a case. A slow case gets fewer blocks."""

    @property
    def id(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def pauses(self) -> bool:
        """Whether there are pauses between rounds."""
        return self.span_s > 0

    @property
    def pause_s(self) -> float:
        """The shortest time from the start of one round to the start of the next."""
        return self.span_s / max(1, self.blocks - 1)


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        # With these numbers of blocks, the interval between two of the sorted blocks has just above 95 % confidence.
        Protocol("fast", 2, warmup_s=0.02, block_s=0.03, blocks=9, span_s=1.0, budget_s=3.0),
        Protocol("std", 2, warmup_s=0.05, block_s=0.1, blocks=15, span_s=8.0, budget_s=10.0),
        Protocol("thorough", 2, warmup_s=0.2, block_s=0.3, blocks=42, span_s=60.0, budget_s=90.0),
    )
}


def shortened(protocol: Protocol) -> Protocol:
    """Return a copy of `protocol` for tests, with blocks a quarter as long and without pauses."""
    return replace(protocol, warmup_s=protocol.warmup_s / 4, block_s=protocol.block_s / 4, span_s=0.0)
