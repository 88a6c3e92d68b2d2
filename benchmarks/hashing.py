"""Time how fast BLAKE2b and other hashes digest files: `python -m benchmarks.hashing FILE …`.

Each file is read once beforehand, so that the disk has no influence. Each hash digests all files three times, and the
shortest time is printed."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from xxhash import xxh3_128_hexdigest

from dispatchflow.keys import digest_file

WAYS: dict[str, Callable[[Path], object]] = {
    "BLAKE2b, as it is": digest_file,
    "SHA-256": lambda path: hashlib.file_digest(path.open("rb"), "sha256"),
    "xxh3, file read at once": lambda path: xxh3_128_hexdigest(path.read_bytes()),
}


def main(files: list[Path]) -> None:
    size = sum(path.stat().st_size for path in files)
    for path in files:
        path.read_bytes()
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(3):
        for name, digest in WAYS.items():
            began = time.perf_counter()
            for path in files:
                digest(path)
            times[name].append(time.perf_counter() - began)
    print(f"{len(files)} files, {size / 2**20:.0f} MiB")
    for name, seconds in times.items():
        print(f"{name:<18} {min(seconds):.3f} s  {size / 2**30 / min(seconds):.2f} GiB/s")


if __name__ == "__main__":
    main(list(map(Path, sys.argv[1:])))
