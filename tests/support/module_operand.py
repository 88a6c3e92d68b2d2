"""An operand that tests give to a user's modules."""

import numpy as np

X = np.arange(-16, 16, dtype="float32").reshape(4, 8)
