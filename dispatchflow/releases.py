"""Released toolchains, fetched on first use: the two wheels' tools, unpacked into the store; offline afterwards."""

from __future__ import annotations

import os
import re
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from dispatchflow import processes
from dispatchflow.errors import ToolchainError
from dispatchflow.locks import locked
from dispatchflow.store import Store

# All that we run; the Python bindings, two thirds of the files, stay behind.
_WANTED = re.compile(
    r"iree/compiler/_mlir_libs/(iree-[^/]+|libIREECompiler[^/]*|iree_platform_libs/.+)|iree/_runtime_libs/(iree-[^/]+|version\.py)"
)
_FETCH_LIMIT_S = 1800.0


def is_version(word: str) -> bool:
    return re.fullmatch(r"\d+\.\d+(\.\d+)?\w*", word) is not None


def folder(store: Store) -> Path:
    return store.root / "toolchains"


def fetched(store: Store, version: str, say: Callable[[str], None]) -> Path:
    """The directory with this release's `iree/`.

    Raises:
        ToolchainError: there is no such release, or it cannot be fetched.
    """
    place = folder(store) / version
    if place.is_dir():
        return place
    with locked(store.root / "locks" / f"toolchain-{version}"), store.scratch() as scratch:
        if place.is_dir():
            return place
        # The packages' names until November 2024; releases then were called by their date.
        dated = int(version.split(".")[0]) > 9999
        names = ("iree-compiler", "iree-runtime") if dated else ("iree-base-compiler", "iree-base-runtime")
        say(f"fetching {names[0]} and {names[1]} {version}")
        _download(scratch, [f"{name}=={version}" for name in names])
        wheels = sorted(scratch.glob("*.whl"))
        for wheel in wheels:
            _unpack(wheel, scratch / "site")
        mebibytes = sum(wheel.stat().st_size for wheel in wheels) / 2**20
        say(f"fetched {mebibytes:.0f} MiB, kept in {place}")
        place.parent.mkdir(exist_ok=True)
        (scratch / "site").rename(place)
    return place


def _download(scratch: Path, requirements: list[str]) -> None:
    argv = (sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check")
    command = processes.Command(
        (*argv, "--dest", ".", *requirements), scratch, env=os.environ, time_limit_s=_FETCH_LIMIT_S
    )
    if failure := processes.run(command).failure:
        errors = [line for line in (scratch / "stderr").read_text(errors="replace").splitlines() if "ERROR" in line]
        facts = {"wanted": ", ".join(requirements), "found": failure, "pip says": (errors or ["nothing"])[-1][:300]}
        raise ToolchainError(
            "this release cannot be fetched", facts, "pip index versions iree-base-compiler lists them."
        )


def _unpack(wheel: Path, place: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            if _WANTED.fullmatch(entry.filename):
                path = Path(archive.extract(entry, place))
                path.chmod(0o755 if path.name.startswith("iree-") else 0o644)


def remove(store: Store, version: str) -> None:
    """Raises ToolchainError when it was never fetched."""
    place = folder(store) / version
    if not is_version(version) or not place.is_dir():
        known = ", ".join(sorted(path.name for path in folder(store).glob("*"))) or "none"
        raise ToolchainError(
            f"toolchain '{version}' was not fetched", {"fetched": known}, "Others are not ours to remove."
        )
    shutil.rmtree(place)
