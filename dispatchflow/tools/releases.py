"""Fetch a released IREE compiler and runtime on first use, and keep their files in the store."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dispatchflow.errors import ToolchainError
from dispatchflow.keys import digest_file
from dispatchflow.store import disk, holders
from dispatchflow.store.locks import locked, others
from dispatchflow.store.store import Store
from dispatchflow.tools import processes

# The files that are unpacked: the compiler with its Python bindings, which find sites, and the runtime's tools.
_WANTED = re.compile(r"iree/compiler/.+|iree/_runtime_libs/(iree-[^/]+|version\.py)")
_RECORD = "RECORD.json"
"""The file that lists the digest (hash) of each unpacked file. It is beside the directory `iree/`."""
_FETCH_LIMIT_S = 1800.0
_SAY_EVERY_S = 5.0


def is_version(word: str) -> bool:
    """Return whether `word` is a version as the package index writes it, such as `3.12.0`.

    A number with a leading zero is refused, because `03.9` would get a second directory for the release 3.9."""
    return re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){1,2}(rc\d+)?", word) is not None


def folder(store: Store) -> Path:
    return store.root / "toolchains"


def fetched_versions(store: Store) -> list[str]:
    return sorted(path.name for path in folder(store).glob("*") if is_version(path.name))


def fetch(store: Store, version: str, say: Callable[[str], None]) -> Path:
    """Return the directory of a release, which contains `iree/`. Fetch the release if it is missing.

    `say` is called with each line of text about the progress.

    Raises:
        ToolchainError: the release does not exist, or it cannot be fetched or unpacked."""
    place = _place(store, version)
    if place.is_dir():
        return place

    def whom(lock: int) -> str:
        found = others(lock)
        return f"waits until {holders.named(found[0].process) if found else holders.UNSEEN} has fetched {place.name}"

    lock = store.root / "locks" / f"toolchain-{place.name}"
    with locked(lock, whom=whom), store.scratch() as scratch:
        if place.is_dir():
            return place
        names = ("iree-compiler", "iree-runtime") if _is_dated(version) else ("iree-base-compiler", "iree-base-runtime")
        say(f"fetching {names[0]} and {names[1]} {place.name}")
        _download(scratch, [f"{name}=={place.name}" for name in names], say)
        wheels = sorted(scratch.glob("*.whl"))
        mebibytes = sum(wheel.stat().st_size for wheel in wheels) / 2**20
        try:
            for wheel in wheels:
                _unpack(wheel, scratch / "site")
            _record(scratch / "site")
            place.parent.mkdir(exist_ok=True)
            (scratch / "site").rename(place)
        except (OSError, zipfile.BadZipFile) as error:
            if isinstance(error, OSError) and disk.is_full(error):
                raise
            facts = {"wheels": ", ".join(wheel.name for wheel in wheels), "found": error, "store": store.root}
            raise ToolchainError(f"release {place.name} cannot be unpacked", facts) from error
        say(f"fetched {mebibytes:.0f} MiB, kept in {place}")
    return place


def _is_dated(version: str) -> bool:
    """Return whether `version` begins with a date, such as `20241104.1068`.

    Until November 2024, all versions of IREE began with a date."""
    return int(version.split(".")[0]) > 9999


def _place(store: Store, version: str) -> Path:
    # The version 3.12 means 3.12.0, as for pip.
    short = re.fullmatch(r"\d+\.\d+", version) and not _is_dated(version)
    return folder(store) / (f"{version}.0" if short else version)


def _download(scratch: Path, requirements: list[str], say: Callable[[str], None]) -> None:
    # pip leaves incomplete downloads in the scratch directory, which is removed even after a kill.
    env = {**os.environ, "TMPDIR": os.fspath(scratch), "LC_ALL": "C"}
    argv = (sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check")
    command = processes.Command((*argv, "--dest", ".", *requirements), scratch, env, time_limit_s=_FETCH_LIMIT_S)
    with _progress(scratch, say):
        failure = processes.run(command).failure
    if failure:
        stderr = (scratch / "stderr").read_text(errors="replace")
        disk.check(scratch, stderr)
        raise _fetch_error(requirements, failure, stderr)


@contextmanager
def _progress(scratch: Path, say: Callable[[str], None]) -> Iterator[None]:
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(_SAY_EVERY_S):
            # Count only wheels, and each name once: pip copies complete wheels, and buffers downloads for its cache.
            sizes: dict[str, int] = {}
            for root, _, files in os.walk(scratch):
                for name in files:
                    with suppress(OSError):  # the file was renamed
                        if name.endswith(".whl"):
                            sizes[name] = max(sizes.get(name, 0), Path(root, name).stat().st_size)
            say(f"  {sum(sizes.values()) / 2**20:.0f} MiB so far")

    threading.Thread(target=report, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _fetch_error(requirements: list[str], failure: str, stderr: str) -> ToolchainError:
    # pip ends with the same message for a missing release and for a missing network.
    facts: dict[str, object] = {"wanted": ", ".join(requirements)}
    lines = [line for line in stderr.splitlines() if line.strip()]
    if broken := [line for line in lines if "connection broken by" in line]:
        facts["pip says"] = re.sub(r"<[^>]*>: ", "", broken[-1].split("connection broken by ")[1])[:300]
        hint = "Fetch it once with a network connection; later runs work offline. iree=PATH needs no network."
        return ToolchainError("the package index cannot be reached", facts, hint)
    if known := re.search(r"\(from versions: (?!none)(.*)\)", stderr):
        stable = [version for version in known[1].split(", ") if re.fullmatch(r"[\d.]+", version)]
        facts["known"] = ", ".join(reversed(stable[-12:])) + (" …" if len(stable) > 12 else "")
        return ToolchainError("there is no such release for this machine", facts)
    errors = [line for line in lines if "ERROR" in line] or lines or ["nothing"]
    facts |= {"found": failure, "pip says": errors[-1][:300]}
    return ToolchainError("this release cannot be fetched", facts)


def _record(place: Path) -> None:
    files = sorted(path for path in place.rglob("*") if path.is_file())
    digests = {path.relative_to(place).as_posix(): digest_file(path) for path in files}
    (place / _RECORD).write_text(json.dumps(digests, indent=1))


def edited(store: Store, version: str) -> list[str]:
    """Return the text `FILE differs` or `FILE is missing` for each changed file of a fetched release.

    All files are compared with the digests (hashes) that were recorded after the release was fetched. If no digests
    were recorded, the result is empty."""
    place = _place(store, version)
    try:
        known: dict[str, str] = json.loads((place / _RECORD).read_text())
    except FileNotFoundError:
        return []
    except ValueError:
        return [f"{_RECORD} differs"]
    states = ((name, (place / name).is_file() and digest_file(place / name) == known[name]) for name in known)
    return [f"{name} {'differs' if (place / name).is_file() else 'is missing'}" for name, same in states if not same]


def warning(version: str, found: Sequence[str]) -> str:
    """Return a warning that files of a release have changed.

    `found` has a text such as `FILE differs` for each changed file; the function `edited` returns these texts."""
    files = ", ".join(found[:3]) + (f", and {len(found) - 3} more" if len(found) > 3 else "")
    return f"iree={version} is damaged or was edited: {files}; to fetch it again: doit toolchains remove={version}"


def _unpack(wheel: Path, place: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            if _WANTED.fullmatch(entry.filename):
                path = Path(archive.extract(entry, place))
                path.chmod(0o755 if path.name.startswith("iree-") else 0o644)


def remove(store: Store, version: str) -> None:
    """Remove a fetched release.

    Raises:
        ToolchainError: the release was not fetched.
    """
    if not is_version(version) or not (place := _place(store, version)).is_dir():
        known = ", ".join(fetched_versions(store)) or "none"
        raise ToolchainError(
            f"toolchain '{version}' was not fetched", {"fetched": known}, "Only a fetched release can be removed."
        )
    with store.scratch() as scratch:  # moved first, so that a kill does not leave half a release
        place.rename(scratch / place.name)
