"""Fetch lavapipe, Mesa's Vulkan driver for the CPU, from Debian's packages, without root.

The system does not change: apt uses a separate state folder, and the packages are only unpacked."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOTS = ("libvulkan1", "mesa-vulkan-drivers")
_NO_OTHERS = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")]
_STEP_LIMIT_S = 120


class Unavailable(Exception):
    """Lavapipe cannot be fetched. Tests are skipped with the exception's message as the reason."""


def environment(folder: Path) -> dict[str, str]:
    """Return the environment variables with which a Vulkan loader finds only lavapipe.

    The first call downloads 50 MB to `folder`.

    Raises:
        Unavailable: apt is missing, a step fails or takes too long, or the packages have no lavapipe.
    """
    root = folder / "root"
    if not root.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        whole = folder / f"unpacked-{os.getpid()}"
        try:
            _unpack(_downloaded(folder / f"apt-{os.getpid()}"), whole)
            whole.rename(root)
        except OSError:
            if not root.is_dir():  # else another process was faster
                raise
        finally:
            for made in (whole, folder / f"apt-{os.getpid()}"):
                shutil.rmtree(made, ignore_errors=True)
    drivers = sorted(root.glob("usr/share/vulkan/icd.d/lvp_icd*.json"))
    libraries = sorted({path.parent for path in root.glob("usr/lib/**/lib*.so*")} | {*root.glob("lib/*-linux-*")})
    if not drivers:
        raise Unavailable(f"{ROOTS[1]} has no lavapipe here")
    return {
        "LD_LIBRARY_PATH": os.pathsep.join(map(os.fspath, libraries)),
        "VK_DRIVER_FILES": os.fspath(drivers[0]),
        "VK_ICD_FILENAMES": os.fspath(drivers[0]),  # what loaders before 1.3.207 read
    }


def _downloaded(state: Path) -> list[Path]:
    if not all(map(shutil.which, ("apt-get", "apt-cache", "dpkg-deb"))):
        raise Unavailable("lavapipe comes from Debian's packages, and there is no apt here")
    for part in ("lists/partial", "archives/partial"):
        (state / part).mkdir(parents=True)
    own = {"Dir::State": state, "Dir::State::lists": state / "lists", "Dir::Cache": state, "APT::Sandbox::User": ""}
    options = [word for name, value in own.items() for word in ("-o", f"{name}={value}")]
    _run(["apt-get", *options, "-q", "update"], state)
    depends = _run(["apt-cache", *options, "depends", "--recurse", *_NO_OTHERS, *ROOTS], state)
    _run(["apt-get", *options, "-q", "download", *_libraries(depends)], state)
    return sorted(state.glob("*.deb"))


def _libraries(depends: str) -> list[str]:
    """Return the packages `ROOTS` and the packages of all libraries that they need, without `libc6`.

    `depends` is the output of `apt-cache depends`. The C library `libc6` is left out: programs run with the system's
    loader, and a C library must match its loader."""
    needs: dict[str, list[str]] = {}
    for line in depends.splitlines():
        if line[:1].isalpha():
            needs[package := line] = []
        elif match := re.fullmatch(r"[ |]+(?:Pre)?Depends: ([a-z0-9][\w.+-]*)", line):
            needs[package].append(match[1])
    found, waiting = set(ROOTS), list(ROOTS)
    while waiting:
        new = {name for name in needs.get(waiting.pop(), ()) if name.startswith("lib") and name != "libc6"} - found
        found |= new
        waiting += new
    return sorted(found)


def _unpack(packages: list[Path], root: Path) -> None:
    for package in packages:
        _run(["dpkg-deb", "-x", os.fspath(package), os.fspath(root)], root.parent)
    for path in root.glob("usr/share/vulkan/icd.d/*.json"):
        driver = json.loads(path.read_text())
        library = Path(driver["ICD"]["library_path"])  # absolute, or a name that the linker finds by LD_LIBRARY_PATH
        driver["ICD"]["library_path"] = library.name
        path.write_text(json.dumps(driver))


def _run(argv: list[str], folder: Path) -> str:
    try:
        found = subprocess.run(
            argv, cwd=folder, capture_output=True, text=True, timeout=_STEP_LIMIT_S, stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{' '.join(argv[:1])} took longer than {_STEP_LIMIT_S} s") from error
    failed = [line for line in found.stderr.splitlines() if line.startswith("E:")]
    if found.returncode or (argv[-1] == "update" and "Failed to fetch" in found.stderr):
        raise Unavailable(f"{argv[0]} says {(failed or found.stderr.splitlines() or ['nothing'])[-1]}")
    return found.stdout
