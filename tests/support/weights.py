"""Write files with weights, which IREE calls parameters."""

from pathlib import Path
from typing import Any

import numpy as np


def write_irpa(path: Path, **arrays: Any) -> None:
    """Write an `.irpa` file with the arrays under their names."""
    from iree.runtime import ParameterIndex

    index = ParameterIndex()
    for key, array in arrays.items():
        index.add_buffer(key, np.ascontiguousarray(array))
    index.create_archive_file(str(path))
