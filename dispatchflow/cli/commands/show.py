"""`doit show` prints the results of a case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatchflow.cli import output
from dispatchflow.cli.commands._base import QueryCommand, join_users, one_case
from dispatchflow.errors import SpecError, ToolError, escaped

if TYPE_CHECKING:
    from dispatchflow.verification.call_result import CallResult

_NPY = ".npy"


class ShowCommand(QueryCommand):
    name = "show"
    page = "docs/verification.md"
    doc_purpose = "print the results of a case, right or wrong; usage: doit show CASE [out=y.npy, or out=DIR]"
    groups = ("cases", "run", "out")

    def execute(self, params: Any, args: list[str]) -> int:
        from dispatchflow.engine import results
        from dispatchflow.reports import case_results

        workspace = self.app.workspace(self.groups)
        out = _destination(workspace.values["out"]) if "out" in workspace.values else None
        case = one_case(self.app, workspace, args, self.name)
        join_users(workspace)
        device = workspace.device(case.target, case.threads)
        recipe, found = results.of_case(workspace.executor, case, device)
        verified = workspace.resolver.chain(case)["verify"]
        text = f"results of {case.name}, {recipe} inputs\n{case_results.table(found)}"
        if verified.state == "failed":
            text += f"\nverify: {verified.why}"
        output.say_last(escaped(text))
        if out is not None:
            for path in _written(out, found):
                output.say_last(str(path))
        return 0


def _destination(written: str) -> Path:
    """Return the path that the variable `out=` names: a file that ends in `.npy`, or a folder.

    The path of a new folder must end in a slash or have no file extension.

    Raises:
        SpecError: the path is something else, such as `y.txt`."""
    out = Path(written)
    is_new_folder = not out.exists() and (not out.suffix or written.endswith("/"))
    if out.suffix == _NPY or out.is_dir() or is_new_folder:
        return out
    hint = f"Write out=y{_NPY} for the only result, or out=DIR for all."
    raise SpecError(f"out={written} is neither a {_NPY} file nor a folder", {}, hint)


def _written(out: Path, results: Sequence[CallResult]) -> list[Path]:
    """Write the results as `.npy` files, and return the files' paths.

    Raises:
        SpecError: a file cannot be written, or `out` is one file and there are several results.
        ToolError: a result is a single number (not a tensor) of a type that cannot be read, such as bf16.
    """
    import numpy as np

    if out.suffix == _NPY and len(results) != 1:
        facts = {"results": len(results), "form": f"out={out.with_suffix('')}"}
        raise SpecError(f"out={out} is one file", facts, "Name a folder.")
    paths = [out] if out.suffix == _NPY else [out / f"result_{index}{_NPY}" for index in range(len(results))]
    for index, (path, result) in enumerate(zip(paths, results, strict=True)):
        if result.array is None:
            raise ToolError(f"result {index} cannot be written", {"type": result.type})
        try:
            if path is not out:
                path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, result.array, allow_pickle=False)
        except OSError as error:
            raise output.unwritable(path, error) from error
    return paths
