"""Provide the first and last steps of scripts that use a toolchain's Python bindings.

Each of these scripts runs in a process of its own. It imports the bindings in a block
`with bindings(folder)`, and calls `end` last."""

import json
import os
import sys
from contextlib import contextmanager

NO_BINDINGS = 3
"""The exit code if iree.compiler cannot be imported."""


@contextmanager
def bindings(folder):
    """Make iree.compiler importable from `folder`; end the process if an import in the `with` block fails."""
    sys.path.insert(0, folder)
    sys.modules["numpy"] = None  # the bindings work without numpy, whose import would take longer than theirs
    sys.setrecursionlimit(10_000)
    try:
        yield
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(NO_BINDINGS)


def end(path, facts):
    """Write `facts` as JSON to the file `path` and end the process."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(facts, file)
    sys.stdout.flush()
    os._exit(0)  # a normal exit would destroy the module, which takes as long as reading it
