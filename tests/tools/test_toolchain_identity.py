"""A rebuilt compiler is a different toolchain, even behind symbolic links and wrapper scripts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.tools import compiler_folder, runtime_folder, write_script

from dispatchflow.errors import ToolchainError
from dispatchflow.store.store import Store
from dispatchflow.tools import toolchain

pytest_plugins = ["support.project"]
pytestmark = pytest.mark.iree

TOOLS = ("iree-compile", "iree-opt", "iree-lld", "iree-run-module", "iree-benchmark-module")


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a build tree: its folder `tools` has copies of the real tools and the compiler's library."""
    tools = tmp_path_factory.mktemp("tree") / "tools"
    tools.mkdir()
    for name in TOOLS:
        source = (runtime_folder() if name.endswith("module") else compiler_folder()) / name
        shutil.copy(source, tools / name)
    shutil.copy(compiler_folder() / "libIREECompiler.so", tools)
    return tools.parent


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def links(tree: Path, root: Path) -> None:
    for name in TOOLS:
        (root / name).symlink_to(tree / "tools" / name)


def links_of_links(tree: Path, root: Path) -> None:
    (root / "farm").mkdir()
    for name in TOOLS:
        (root / "farm" / name).symlink_to(tree / "tools" / name)
        (root / name).symlink_to(Path("farm") / name)


def scripts(tree: Path, root: Path) -> None:
    for name in TOOLS:
        write_script(root / name, f'exec "{tree}/tools/{name}" "$@"')


def scripts_of_another_process(tree: Path, root: Path) -> None:
    for name in TOOLS:
        write_script(root / name, f'"{tree}/tools/{name}" "$@"\nexit $?')


def found(store: Store, root: Path) -> toolchain.Toolchain:
    return toolchain.find(store, str(root), lambda line: None)


@pytest.mark.parametrize("reach", [links, links_of_links, scripts, scripts_of_another_process])
def test_a_rebuilt_compiler_is_another_toolchain_however_it_is_reached(
    reach: Callable[[Path, Path], None], tree: Path, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "by" / "tools").mkdir(parents=True)
    reach(tree, tmp_path / "by" / "tools")
    real, before = found(store, tree), found(store, tmp_path / "by")
    assert before.size_bytes > 100 << 20
    if reach in (links, links_of_links):
        assert before.digest == real.digest, "a link is no other compiler"

    library = tree / "tools/libIREECompiler.so"
    built = library.with_name("new")
    shutil.copy(library, built)
    with built.open("ab") as stream:
        stream.write(os.urandom(8))
    built.replace(library)

    assert found(store, tmp_path / "by").digest != before.digest
    assert found(store, tree).digest != real.digest
    assert found(store, tree) == found(store, tree)


def test_libraries_that_a_runpath_names_are_part_of_the_identity(tree: Path, store: Store, tmp_path: Path) -> None:
    # Here the script's `LD_LIBRARY_PATH` names the folder of the compiler's library.
    (tmp_path / "built" / "tools").mkdir(parents=True)
    for name in TOOLS:
        (tmp_path / "built/tools" / name).symlink_to(tree / "tools" / name)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(tree / "tools/libIREECompiler.so", elsewhere)
    wrapper = f'LD_LIBRARY_PATH={elsewhere} exec "{tree}/tools/iree-compile" "$@"'
    (tmp_path / "built/tools/iree-compile").unlink()
    write_script(tmp_path / "built/tools/iree-compile", wrapper)
    before = found(store, tmp_path / "built").digest

    with (elsewhere / "libIREECompiler.so").open("ab") as stream:
        stream.write(b"another")

    assert found(store, tmp_path / "built").digest != before


def test_the_linker_is_that_of_the_compiler_that_a_script_starts(tree: Path, store: Store, tmp_path: Path) -> None:
    # The compiler looks for `iree-lld` beside itself, not beside the script that starts it.
    shutil.copytree(tree / "tools", tmp_path / "real/lib", copy_function=os.link)
    (tmp_path / "by/tools").mkdir(parents=True)
    links(tree, tmp_path / "by/tools")
    (tmp_path / "by/tools/iree-compile").unlink()
    write_script(tmp_path / "by/tools/iree-compile", f'exec "{tmp_path}/real/lib/iree-compile" "$@"')
    before = found(store, tmp_path / "by")

    linker = tmp_path / "real/lib/iree-lld"
    linker.unlink()
    write_script(linker, f'exec "{tree}/tools/iree-lld" --build-id "$@"')

    assert found(store, tmp_path / "by").digest != before.digest


def test_a_script_that_starts_no_compiler_is_refused(tree: Path, store: Store, tmp_path: Path) -> None:
    (tmp_path / "fake" / "tools").mkdir(parents=True)
    links(tree, tmp_path / "fake" / "tools")
    (tmp_path / "fake/tools/iree-compile").unlink()
    write_script(tmp_path / "fake/tools/iree-compile", "echo IREE compiler version 3.13.0 @ 0123abcd")

    with pytest.raises(ToolchainError, match="cannot be identified"):
        found(store, tmp_path / "fake")


@pytest.mark.parametrize("tool", ["iree-compile", "iree-run-module", "iree-benchmark-module"])
def test_a_link_that_a_script_starts_may_name_another_file(tool: str, tree: Path, store: Store, tmp_path: Path) -> None:
    (tmp_path / "by/tools").mkdir(parents=True)
    (tmp_path / "farm").mkdir()
    links(tree, tmp_path / "by/tools")
    (tmp_path / "farm" / tool).symlink_to(tree / "tools" / tool)
    (tmp_path / "by/tools" / tool).unlink()
    write_script(tmp_path / "by/tools" / tool, f'exec "{tmp_path}/farm/{tool}" "$@"')
    before = found(store, tmp_path / "by")

    shutil.copytree(tree / "tools", tmp_path / "other", copy_function=os.link)
    changed = tmp_path / "other" / tool
    content = changed.read_bytes()
    changed.unlink()
    changed.write_bytes(content + bytes(1))
    changed.chmod(0o755)
    (tmp_path / "farm" / tool).unlink()
    (tmp_path / "farm" / tool).symlink_to(changed)
    after = found(store, tmp_path / "by")

    assert (after.digest != before.digest) == (tool == "iree-compile")
    assert (after.runtime_digest != before.runtime_digest) == (tool != "iree-compile")


def test_a_link_to_a_library_may_name_another_file(tree: Path, store: Store, tmp_path: Path) -> None:
    # The compiler loads the library beside itself, here a link, not the library beside the script.
    (tmp_path / "by/tools").mkdir(parents=True)
    links(tree, tmp_path / "by/tools")
    shutil.copytree(tree / "tools", tmp_path / "farm", copy_function=os.link)
    library = tmp_path / "farm/libIREECompiler.so"
    library.unlink()
    library.symlink_to(tree / "tools" / library.name)
    (tmp_path / "by/tools/iree-compile").unlink()
    write_script(tmp_path / "by/tools/iree-compile", f'exec "{tmp_path}/farm/iree-compile" "$@"')
    before = found(store, tmp_path / "by")

    other = tmp_path / library.name
    shutil.copy(library, other)
    with other.open("ab") as stream:
        stream.write(bytes(1))
    library.unlink()
    library.symlink_to(other)

    assert found(store, tmp_path / "by").digest != before.digest


def test_a_script_that_hides_the_compiler_behind_another_program_is_refused(
    tree: Path, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "by/tools").mkdir(parents=True)
    links(tree, tmp_path / "by/tools")
    shutil.copy("/usr/bin/env", tmp_path / "env")
    (tmp_path / "by/tools/iree-compile").unlink()
    write_script(tmp_path / "by/tools/iree-compile", f'exec "{tmp_path}/env" -i "{tree}/tools/iree-compile" "$@"')

    with pytest.raises(ToolchainError, match="'IREE compiler version' is in none of"):
        found(store, tmp_path / "by")
