"""`iree=…` selects one toolchain, which reports its version, the devices and this machine's CPU.

The reports are read before any case runs."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.tools import processes_in, write_script

from dispatchflow.errors import ToolchainError
from dispatchflow.iree.release import syntax_of
from dispatchflow.iree.targets import TARGETS
from dispatchflow.project import replay
from dispatchflow.store.store import Store
from dispatchflow.tools import devices, toolchain
from dispatchflow.tools.limits import Limits

pytest_plugins = ["support.project"]

STARTS = 'case "$*" in --version) "$0.program";; esac\n'
"""A line of the script that replaces the compiler: for `--version`, it runs a copy of `/bin/true`.

`toolchain.find` rejects a compiler that is a script and starts no real program for `--version`."""
SAYS = STARTS + 'case "$*" in --version) echo IREE compiler version {version} @ 0123abcd; exit;; esac\n'
HANGS = "/usr/bin/setsid /bin/sleep 301 & /bin/sleep 302"
EATS = f"exec {sys.executable} -I -S -c 'x = [bytearray(1 << 20) for _ in range(1 << 20)]'"
TIME = (HANGS, Limits(compile_s=0.1, run_s=0.1), "took longer than {}=0.1; a higher {} tries again")
MEMORY = (
    EATS,
    Limits(memory_bytes=64 << 20),
    "ran out of memory at memory_limit=64MiB; a higher memory_limit tries again",
)


def environment(root: Path, version: str = "3.9.9", more: str = "", tool: str = "", python: str = "python3.9") -> Path:
    """Make a Python environment in `root` whose compiler and tools are scripts, and return `root`."""
    place = root / "lib" / python / "site-packages"
    (place / "iree/compiler/_mlir_libs").mkdir(parents=True)
    (place / "iree/_runtime_libs").mkdir(parents=True)
    write_script(place / toolchain.COMPILER, SAYS.format(version=version) + more)
    shutil.copy("/bin/true", place / f"{toolchain.COMPILER}.program")
    for name in ("iree-run-module", "iree-benchmark-module"):
        write_script(place / "iree/_runtime_libs" / name, tool)
    return root


@pytest.fixture
def store(tmp_path):
    with_records = Store(tmp_path / "store")
    yield with_records
    with_records.records.close()


def found(store, root, limits=toolchain.DEFAULT):
    return toolchain.find(store, str(root), lambda line: None, limits=limits)


@pytest.mark.parametrize("order", [("3.9", "3.10", "3.11"), ("3.11", "3.10", "3.9")])
def test_newest_python_with_iree_in_an_environment_is_taken(order, store, tmp_path):
    for python in order:
        environment(tmp_path / "env", version=python, python=f"python{python}")
    (tmp_path / "env/lib/python3.12/site-packages").mkdir(parents=True)
    assert found(store, tmp_path / "env").version == "3.11"


@pytest.mark.parametrize(
    ("says", "version", "revision"),
    [
        ("3.14.0 @ 89ece87b", "3.14.0", "89ece87b"),
        ("3.14.0.dev", "3.14.0.dev", None),
        ("\\(unknown\\)", "unknown", None),
    ],
)
def test_a_build_tree_may_report_less_than_a_release(says, version, revision, store, tmp_path):
    # IREE's build embeds its version and revision only if it is configured to.
    printed = f"echo IREE \\(https://iree.dev\\): && echo '  ' IREE compiler version {says} && echo '  ' LLVM version 24.0.0git"
    (tmp_path / "build/tools").mkdir(parents=True)
    write_script(tmp_path / "build/tools/iree-compile", STARTS + printed)
    shutil.copy("/bin/true", tmp_path / "build/tools/iree-compile.program")
    for name in ("iree-run-module", "iree-benchmark-module"):
        write_script(tmp_path / "build/tools" / name, "")
    tools = found(store, tmp_path / "build")
    assert (tools.version, tools.revision) == (version, revision)
    assert syntax_of(tools.version).has_gpu_pipelines
    with pytest.raises(FileNotFoundError) as lacks:
        _ = toolchain.printer_of(tools)
    folder = tmp_path / "build/tools"
    assert str(lacks.value) == f"this toolchain has no iree-opt, which prints modules: looked in {folder}"
    write_script(folder / "iree-opt", "")
    assert toolchain.printer_of(tools) == str(folder / "iree-opt")


@pytest.mark.parametrize("word", ["3", "3.012.0", "current,3.12.0", ""])
def test_a_word_that_is_not_a_toolchain_is_an_error_that_lists_valid_ones(word, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ToolchainError, match=f"^iree={word} has no compiler") as error:
        found(store, word)
    assert all(
        part in error.value.hint
        for part in ("one toolchain at a time:", "current", "3.12.0", "no zero before", "tools/")
    )


def test_versions_and_devices_contain_no_terminal_sequences(store, tmp_path):
    version = r"3.13.0\033[31mx @ 0abc\033]0;t\007def\033[2J"
    dump = r"printf '# --device=vulkan://a\033[31mX\nname: b\033[2Jc\ndriver: \001\n'"
    root = environment(tmp_path / "env", tool=dump)
    (place,) = root.glob("lib/*/site-packages/iree")
    write_script(place / "compiler/_mlir_libs/iree-compile", f"{STARTS}printf 'IREE compiler version {version}'")
    (place / "_runtime_libs/version.py").write_text('VERSION = "3.13\33[31m.0\1"\n')

    tools = found(store, root)

    assert (tools.version, tools.revision, tools.runtime_version) == ("3.13.0x", "0abcdef", r"3.13.0\x01")
    device = devices.detect("vulkan", tools.tool("iree-run-module"), toolchain.DEFAULT)
    assert (device.uri, device.identity["name"], device.identity["driver"]) == ("vulkan://aX", "bc", r"\x01")


@pytest.mark.parametrize(("does", "limits", "says"), [TIME, MEMORY])
def test_limits_apply_to_a_compiler_s_first_run_too(does, limits, says, store, tmp_path):
    tools = found(store, environment(tmp_path / "env", more=does))
    other = next(target for target in TARGETS.values() if target.gpu)
    for ask in (
        lambda: devices.host_cpu(store, tools, limits),
        lambda: devices.features(other, tools, store, limits),
        lambda: found(store, environment(tmp_path / "tool", tool=does), replace(limits, compile_s=60.0)),
    ):
        with pytest.raises(ToolchainError) as error:
            ask()
        name = "run_limit" if "module" in error.value.problem else "compile_limit"
        assert error.value.facts["found"] == says.format(name, name)
    assert not [words for words in processes_in(tmp_path) if "sleep" in words]


@pytest.mark.parametrize(("does", "limits", "says"), [TIME, MEMORY])
def test_limits_apply_to_a_driver_s_device_list_too(does, limits, says, tmp_path):
    write_script(tmp_path / "tool", does)
    tool = str(tmp_path / "tool")
    absent = devices.detect("vulkan", tool, limits).absent
    assert absent == says.format("run_limit", "run_limit")
    (tmp_path / "locks").mkdir()
    asked = json.dumps(("vulkan", tool, limits.run_s, limits.memory_bytes, str(tmp_path)))
    assert absent in replay._driver(asked)


def test_output_of_a_compiler_that_reports_no_cpu_is_quoted(store, tmp_path):
    tools = found(store, environment(tmp_path / "env", more="echo nonsense"))
    with pytest.raises(ToolchainError, match=r"found +nonsense\n.*iree="):
        devices.host_cpu(store, tools, toolchain.DEFAULT)


@pytest.mark.parametrize("order", [("3.9.0", "3.13.0"), ("3.13.0", "3.9.0")])
def test_each_compiler_names_this_cpu_itself_whichever_ran_first(order, store, tmp_path):
    known = {"3.9.0": ("znver4", "+avx,+fma"), "3.13.0": ("znver5", "+avx,+fma,+rdpru,-sse4a")}
    for version in order:
        cpu, features = known[version]
        says = f'echo \'{{cpu = "{cpu}", cpu_features = "{features}"}}\''
        tools = found(store, environment(tmp_path / version, version=version, more=says))
        for _ in range(2):
            host = devices.host_cpu(store, tools, toolchain.DEFAULT)
            assert (host.name, host.features) == (cpu, features.replace(",-sse4a", ""))
