"""Read the zones (timed places of a program) from a .tracy file of Tracy 0.11.

The file is a sequence of sections without an index, so the reader must pass all sections before the zones."""

from __future__ import annotations

import struct
from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from dispatchflow.errors import SpecError, ToolError

VERSION = (0, 11)
"""The major and minor version of Tracy whose files are read; the patch version does not matter."""

# The head has magic bytes, the kind of compression and the number n of streams. Then come compressed blocks, each
# preceded by its size; block i belongs to stream i mod n.
_MAGIC, _CONTENT = b"tr\xfdP", b"tracy"
_ZSTD = 1
_VERSION_AT, _CONTENT_AT = len(_CONTENT), len(_CONTENT) + 3
_BLOCK_BYTES = 1 << 20
"""An upper bound on the size of a compressed block. Tracy begins a block after each 64 KiB of content."""
UNNAMED = "?"
"""The name for a zone whose name the file does not contain, for example because the program crashed."""

_OPEN = -1
"""The recorded end time of a zone that was running when the recording ended."""


@dataclass(frozen=True, slots=True)
class Zone:
    """All executions of one zone, which is a name and a place in a program's source."""

    name: str
    file: str | None
    line: int | None
    durations_ns: array[int]
    """The duration of each finished execution in ns, including the time in nested zones."""

    @property
    def count(self) -> int:
        return len(self.durations_ns)

    @property
    def total_ns(self) -> int:
        return sum(self.durations_ns)

    @property
    def median_ns(self) -> float:
        return float(median(self.durations_ns)) if self.durations_ns else 0.0

    @property
    def source(self) -> str | None:
        """The zone's place in the source, such as `net.mlir:12`. None if unknown."""
        return f"{self.file}:{self.line}" if self.file is not None else None


@dataclass(frozen=True, slots=True)
class Trace:
    """The zones that one run of a program recorded in a .tracy file."""

    version: tuple[int, int, int]
    program: str
    zones: tuple[Zone, ...]
    """The zones of all threads, in order of decreasing total time."""
    recorded: int
    """The total number of zone executions, as written in the file."""
    unfinished: int
    """The number of zone executions that were still running when the recording ended."""


def read(content: bytes) -> Trace:
    """Parse the content of a .tracy file.

    Raises:
        SpecError: the file is not Tracy's, has a version other than `VERSION`, or is damaged or incomplete.
        ToolError: the package zstandard is missing.
    """
    try:
        return _Reader(_decompressed(content)).trace()
    except (struct.error, IndexError, KeyError, OverflowError, ValueError) as error:
        raise _damaged(f"{type(error).__name__}: {error}") from error


def _damaged(found: str) -> SpecError:
    return SpecError("this .tracy file is damaged or incomplete", {"found": found}, "Capture it again.")


def _decompressed(content: bytes) -> bytes:
    if content[:4] != _MAGIC:
        found = {"found": f"it begins with {content[:4]!r}; files of Tracy since 0.9 with {_MAGIC!r}"}
        raise SpecError("this is no .tracy file that can be read", found)
    if len(content) < 6 or not content[5]:
        raise _damaged("it ends within its head")
    if content[4] != _ZSTD:
        found = {"compression": str(content[4]), "read": "zstd, which iree-tracy-capture writes"}
        raise SpecError("this .tracy file has another compression", found)
    whole = bytearray()
    for number, block in enumerate(_blocks(content)):
        whole += block
        if not number:
            _check_version(bytes(whole[:_CONTENT_AT]))
    return bytes(whole)


def _blocks(content: bytes) -> Iterator[bytes]:
    try:
        import zstandard  # only for traces
    except ImportError:
        hint = "Install it: pip install 'dispatchflow[tracy]'."
        raise ToolError("the package zstandard, which reads .tracy files, is not installed", {}, hint) from None
    streams = [zstandard.ZstdDecompressor().decompressobj() for _ in range(content[5])]
    position, number = 6, 0
    try:
        while position < len(content):
            (size,) = struct.unpack_from("<I", content, position)
            block = content[position + 4 : position + 4 + size]
            if len(block) < size or size > _BLOCK_BYTES:
                raise _damaged(f"block {number} is not complete")
            yield streams[number % len(streams)].decompress(block)
            position, number = position + 4 + size, number + 1
    except zstandard.ZstdError as error:
        raise _damaged(f"block {number}: {error}") from error
    if not number:
        raise _damaged("it has no content")


def _check_version(head: bytes) -> None:
    if head[:_VERSION_AT] != _CONTENT or len(head) < _CONTENT_AT:
        raise _damaged("its content does not begin with Tracy's name")
    if tuple(head[_VERSION_AT : _VERSION_AT + 2]) != VERSION:
        facts = {"version": ".".join(map(str, head[_VERSION_AT:])), "read": ".".join(map(str, (*VERSION, "x")))}
        raise SpecError("this .tracy file is of another version of Tracy", facts, "Tracy's own profiler opens it.")


_Place = tuple[str, str | None, int | None]  # name, file and line


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content, self._position = content, 0

    def trace(self) -> Trace:
        major, minor, patch = self._content[_VERSION_AT:_CONTENT_AT]
        self._skip(_CONTENT_AT)
        program = self._head()
        self._strings()
        self._skip(24 * self._count())  # threads of other processes: id, and two names
        self._skip(8 * self._count())  # ids of threads, shortened
        self._skip(8 * self._count())
        places = {self._one("<Q"): self._place() for _ in range(self._count())}
        static = [places.get(self._one("<Q"), (UNNAMED, None, None)) for _ in range(self._count())]
        dynamic = [self._place() for _ in range(self._count())]
        self._skip(10 * self._count())  # the number of zones of each location
        self._skip(10 * self._count())
        self._locks()
        for _ in range(self._count()):  # messages: id, time, text, colour, call stack
            self._skip(16 + 9 + 7)
        # A zone may have an extra: a call stack, a text, a name and a colour. Only the name is read.
        names = [int.from_bytes(self._take(12)[6:9], "little") for _ in range(self._count())] or [0]
        recorded = self._count()
        self._count()  # zones with call stacks
        # The durations in ns of each (index of a source location, index of an extra).
        times: dict[tuple[int, int], array[int]] = defaultdict(lambda: array("q"))
        unfinished = self._threads(times, len(names))
        zones: dict[_Place, array[int]] = defaultdict(lambda: array("q"))
        for (location, extra), durations in times.items():
            name, file, line = dynamic[-location - 1] if location < 0 else static[location]
            if own := names[extra]:
                name = self._indexed[own - 1]
            zones[name, file, line].extend(durations)
        found = [Zone(*place, durations) for place, durations in zones.items()]
        found.sort(key=lambda zone: (-zone.total_ns, zone.name, zone.source or ""))
        return Trace((major, minor, patch), program, tuple(found), recorded, unfinished)

    def _take(self, size: int) -> bytes:
        begin = self._position
        self._skip(size)
        return self._content[begin : self._position]

    def _skip(self, size: int) -> None:
        self._position += size
        if self._position > len(self._content):
            raise ValueError("it ends before the zones do")

    def _one(self, form: str) -> int:
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(value)

    def _count(self) -> int:
        return self._one("<Q")

    def _text(self) -> str:
        return self._take(self._count()).decode("utf-8", "replace")

    def _head(self) -> str:
        """Skip the sections about the machine and the frames, and return the name of the traced program."""
        self._skip(8 + 48 + 5 + 12 + 1)  # the queue's delay; the clock; the CPU; whether it waited for a capture
        self._text()
        program = self._text()
        self._skip(16)  # when it was captured and built
        self._text()
        for _ in range(self._count()):  # packages, dies, cores, threads
            self._skip(4)
            for _ in range(self._count()):
                self._skip(4)
                for _ in range(self._count()):
                    self._skip(4)
                    self._skip(4 * self._count())
        self._skip(28)  # how it crashed
        for _ in range(self._count()):  # frames
            self._skip(8)
            continuous = self._one("<B")
            self._skip((12 if continuous else 20) * self._count())
        return program

    def _strings(self) -> None:
        self._indexed = list[str]()
        by_pointer = dict[int, str]()
        for _ in range(self._count()):
            pointer = self._count()
            self._indexed.append(text := self._text())
            by_pointer[pointer] = text
        self._by_key = dict[int, str]()
        for _ in range(self._count()):
            key, pointer = self._count(), self._count()
            self._by_key[key] = by_pointer.get(pointer, UNNAMED)
        self._skip(16 * self._count())  # names of threads

    def _reference(self) -> str | None:
        value, flags = self._count(), self._one("<B")
        if not flags & 2:
            return None
        return self._indexed[value] if flags & 1 else self._by_key.get(value)

    def _place(self) -> _Place:
        name, function, file = self._reference(), self._reference(), self._reference()
        line = self._one("<I")
        self._skip(4)  # a colour
        # Code without symbols has no file and an arbitrary line number; code without locations has line 0.
        known = bool(file and line)
        return name or function or UNNAMED, file if known else None, line if known else None

    def _locks(self) -> None:
        for _ in range(self._count()):
            self._skip(4 + 3 + 2 + 1 + 1 + 16)
            self._skip(8 * self._count())  # threads
            self._skip(12 * self._count())  # events

    def _threads(self, times: dict[tuple[int, int], array[int]], extras: int) -> int:
        unfinished = 0
        for _ in range(self._count()):
            self._skip(8 + 8 + 8 + 1 + 4)
            unfinished += self._timeline(times, extras)
            self._skip(8 * self._count())  # messages
            self._skip(11 * self._count())  # samples: a time and a call stack
            self._skip(11 * self._count())
        return unfinished

    def _timeline(self, times: dict[tuple[int, int], array[int]], extras: int) -> int:
        """Read the zone executions of one thread; append their durations in ns to `times`.

        Returns the number of executions that did not end. These have no duration. An extra is a record that may give an
        execution its own name. `extras` is the number of extras in the file. An index of an extra that does
        not exist is ignored."""
        content, position = self._content, self._position
        begin, end = struct.Struct("<hqII"), struct.Struct("<q")
        (left,) = struct.unpack_from("<I", content, position)
        position += 4
        # Each time is relative to the time before it. Nested zones lie between the begin and the end of a zone.
        now = unfinished = 0
        around: list[tuple[int, int, int, int]] = []  # open zones; the last number counts the unread zones after each
        while left or around:
            if left:
                location, offset, extra, inside = begin.unpack_from(content, position)
                position += begin.size
                now += offset
                around.append((location, extra if extra < extras else 0, now, left - 1))
                left = inside
            else:
                location, extra, began, left = around.pop()
                now += end.unpack_from(content, position)[0]
                position += end.size
                if now == _OPEN:
                    unfinished += 1
                else:
                    times[location, extra].append(now - began)
        self._position = position
        return unfinished
