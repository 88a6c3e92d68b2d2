"""Protocols: how long and how often a case is measured.

If you change a protocol, also change its `version`. The version is part of the keys of measurements, so measurements
under the old protocol are then not reused."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Protocol:
    """The number of blocks (benchmark processes) that are measured for a case, and their length.

    Cases are measured in rounds. In each round, one block of each case is measured."""

    name: str
    version: int
    warmup_s: float
    block_s: float
    blocks: int
    """The number of blocks of a case, which is fixed before the measurement.

    A measurement does not end early when its interval becomes narrow: such an interval would miss the true median too
    often."""
    span_s: float
    """The shortest allowed time from the start of the first round to the start of the last round, in s.

    If the rounds take less time, the run waits between them."""
    budget_s: float
    """The longest time for all blocks of a case. A case with slow calls gets fewer blocks."""

    @property
    def id(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def pauses(self) -> bool:
        """True if a run may wait between two rounds."""
        return self.span_s > 0

    @property
    def pause_s(self) -> float:
        """The shortest allowed time from the start of one round to the start of the next round, in s.

        If a round takes less time, the run waits before the next round."""
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
    """Return a variant of `protocol` for tests.

    Its warm-up and its blocks take a quarter of the time, and there are no pauses between rounds."""
    return replace(protocol, warmup_s=protocol.warmup_s / 4, block_s=protocol.block_s / 4, span_s=0.0)
