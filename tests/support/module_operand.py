"""An array that tests pass as an operand to a user's MLIR modules."""

import numpy as np

X = np.arange(-16, 16, dtype="float32").reshape(4, 8)
