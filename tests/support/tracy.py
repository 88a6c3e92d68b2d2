"""Write trace files as Tracy 0.11 does, to test the code that reads them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import zstandard

Zone = tuple[int, int, int, int, Sequence["Zone"]]
"""A zone: (location, extra, begin, end, inner zones).

A zone is a named part of a program with its times. `location` is the number of a source location. `extra` is the index
of additional data, such as another name; 0 means that there are no such data. `begin` and `end` are in ns."""

BLOCK = 64 << 10


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def text(value: str) -> bytes:
    return u64(len(value.encode())) + value.encode()


def reference(number: int | None, kind: int = 3) -> bytes:
    """Encode a reference to a string in a trace file.

    `number` identifies the string. None means that there is no string."""
    return u64(number or 0) + bytes([0 if number is None else kind])


def location(name: int | None, function: int | None, file: int | None, line: int, kind: int = 3) -> bytes:
    parts = [reference(each, kind) for each in (name, function, file)]
    return b"".join(parts) + struct.pack("<II", line, 0)


def timeline(zones: Sequence[Zone]) -> bytes:
    now = 0

    def time(value: int) -> bytes:
        nonlocal now
        offset, now = value - now, value
        return struct.pack("<q", offset)

    def one(zone: Zone) -> bytes:
        place, extra, begin, end, inside = zone
        head = struct.pack("<h", place) + time(begin) + struct.pack("<II", extra, len(inside))
        return head + b"".join(map(one, inside)) + time(end)

    return struct.pack("<I", len(zones)) + b"".join(map(one, zones))


def content(threads: Sequence[Sequence[Zone]], version: tuple[int, int, int] = (0, 11, 2)) -> bytes:
    """Return the uncompressed content of a trace file that has the given zones for each thread.

    The file has three source locations for the zones: the static locations `outer` and `inner`, and the dynamic
    location `made`."""
    strings = ["outer", "inner", "net.mlir", "made", "own name"]
    count = sum(_count(zone) for zones in threads for zone in zones)
    parts = [
        b"tracy" + bytes(version),
        bytes(8 + 48 + 5 + 12 + 1),
        text("net @ today") + text("net") + u64(0, 0) + text("a machine"),
        u64(1) + bytes(4) + u64(1) + bytes(4) + u64(1) + bytes(4) + u64(2) + bytes(8),  # one core of two threads
        bytes(28),
        u64(2) + u64(0) + b"\x01" + u64(1) + bytes(12) + u64(0) + b"\x00" + u64(1) + bytes(20),  # frames
        u64(len(strings)) + b"".join(u64(100 + i) + text(each) for i, each in enumerate(strings)),
        u64(1) + u64(7, 102),  # key 7 → net.mlir
        u64(1) + u64(1, 100),
        u64(1) + bytes(24),
        u64(2, 0, 0) + u64(0),
        u64(2) + u64(51) + location(0, 0, 2, 12) + u64(52) + location(None, 1, None, 801175936),
        u64(2) + u64(51, 52),
        u64(1) + location(3, 3, 2, 0),
        u64(1) + bytes(10) + u64(0),
        u64(1) + bytes(4 + 3 + 2 + 1 + 1 + 16) + u64(1) + bytes(8) + u64(1) + bytes(12),  # a lock
        u64(1) + u64(9, 5) + reference(0) + bytes(7),  # a message
        u64(2) + bytes(12) + bytes(6) + (5).to_bytes(3, "little") + bytes(3),
        u64(count, 0),
        u64(len(threads)),
        *(bytes(29) + timeline(zones) + u64(1, 9) + u64(1) + bytes(11) + u64(0) for zones in threads),
        b"what follows is not read",
    ]
    return b"".join(parts)


def _count(zone: Zone) -> int:
    return 1 + sum(map(_count, zone[4]))


def file(whole: bytes, streams: int = 2, compression: int = 1) -> bytes:
    packers = [zstandard.ZstdCompressor().compressobj() for _ in range(streams)]
    blocks = []
    for number, begin in enumerate(range(0, len(whole), BLOCK)):
        packer = packers[number % streams]
        block = packer.compress(whole[begin : begin + BLOCK]) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        blocks.append(struct.pack("<I", len(block)) + block)
    return b"tr\xfdP" + bytes([compression, streams]) + b"".join(blocks)
