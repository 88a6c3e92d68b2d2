"""Check and store the files that contain a module's weights.

The size and the element type of each weight must be the same in its file and in the module."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from dispatchflow.cases import module
from dispatchflow.cases.module import Module
from dispatchflow.engine.actions import Action
from dispatchflow.engine.call import reason_of
from dispatchflow.errors import ToolError
from dispatchflow.iree import command_lines, parameters
from dispatchflow.keys import Digest
from dispatchflow.store.store import Store
from dispatchflow.tools import processes
from dispatchflow.tools.limits import Limits

if TYPE_CHECKING:
    from dispatchflow.iree.toolchain import Toolchain

_LISTING = "listing"


def stored(
    program: Module, action: Action, scratch: Path, store: Store, toolchain: Toolchain, limits: Limits
) -> dict[str, Digest]:
    """Copy the files with a module's weights into the store.

    Returns a dict from file name to digest.

    Args:
        action: the step that makes the module's inputs.
        scratch: a temporary directory for the copies.

    Raises:
        ToolError: a file is malformed, a weight occurs twice, or a weight has another size or type than in the
            module.
        OSError: a file cannot be read, or has changed after planning.
    """
    if not program.parameters:
        return {}
    paths = {name: item.file.path for name, item in zip(program.parameter_names, program.parameters, strict=True)}
    for name, path in paths.items():
        shutil.copyfile(path, scratch / name)
    # Formats, sizes and types are not checked if the toolchain has no `iree-dump-parameters`.
    if Path(toolchain.tool(parameters.TOOL)).exists():
        # The ingredient `module` is the digest of the module's printed text.
        _check(program, store.path(action.ingredients["module"]), scratch, toolchain, limits)
    found = {name: store.put_file(scratch / name) for name in paths}
    for digest, item in zip(found.values(), program.parameters, strict=True):
        if digest != item.file.digest:
            raise OSError(f"{item.file.path} has changed since the plan was made")
    return found


def _check(program: Module, printed: Path, scratch: Path, toolchain: Toolchain, limits: Limits) -> None:
    if (failure := _list(program.parameter_values, scratch, toolchain, limits)) is not None:
        for name, item in zip(program.parameter_names, program.parameters, strict=True):
            if (of_one := _list([name], scratch, toolchain, limits)) is not None:
                raise ToolError(f"cannot read {PurePath(item.file.path).name}: {of_one}")
        raise ToolError(f"cannot read the parameters: {failure}")
    entries = parameters.listed((scratch / _LISTING).read_text(encoding="utf-8", errors="replace"))
    if (again := parameters.twice(entries)) is not None:
        raise ToolError(f"{again.spelt} is in the parameters twice, and the runtime would take either")
    held, types = {(entry.scope, entry.key): entry.nbytes for entry in entries}, _types(program, scratch)
    for weight in parameters.named(printed.read_text(encoding="utf-8", errors="replace")):
        needed, has = module.nbytes_of(weight.type), held.get((weight.scope, weight.key))
        if needed is not None and has is not None and needed != has:
            needs = f"the module's is a {weight.type} of {needed:,} B"
            raise ToolError(f"{weight.spelt} has {has:,} B in its file; {needs}; export both from the same model")
        held_type = types.get((weight.scope, weight.key))
        if parameters.other_type(held_type, module.element_of(weight.type)):
            needs = f"the module's is a {weight.type}"
            raise ToolError(f"{weight.spelt} is {held_type} in its file; {needs}; export both from the same model")


def _types(program: Module, scratch: Path) -> dict[tuple[str, str], str]:
    """Return a dict from the name of each weight in the `.safetensors` files to the weight's element type.

    The name is a pair: scope and key. Weights in files of another format, and weights of an unknown type, are left out.
    """
    found: dict[tuple[str, str], str] = {}
    for name, item in zip(program.parameter_names, program.parameters, strict=True):
        if item.ending == ".safetensors":
            with (scratch / name).open("rb") as content:
                found |= {(item.scope, key): type_ for key, type_ in parameters.safetensors_types(content).items()}
    return found


def _list(values: Sequence[str], scratch: Path, toolchain: Toolchain, limits: Limits) -> str | None:
    """List all weights of some files, and write the list to the file `_LISTING`.

    `values` has a text such as `model=w.irpa` for each file with weights.
    Returns the reason for a failure, or None if the list was written."""
    argv = parameters.listing_argv(toolchain.tool(parameters.TOOL), values)
    command = processes.Command(
        argv, scratch, command_lines.environment(os.environ),
        stdout=_LISTING, time_limit_s=limits.run_s, memory_limit_bytes=limits.memory_bytes,
    )  # fmt: skip
    outcome = processes.run(command)
    return reason_of(outcome, processes.shortened(scratch / "stderr")) if outcome.failure else None
