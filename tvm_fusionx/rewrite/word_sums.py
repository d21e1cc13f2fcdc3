"""Which weights of bytes leave room for two products in 16 bits.

Where products of bytes are added two by two in 16 bits before they join a sum of 32, twice -128 by
-128 is one more than fits. Weights are constants: where no output has two of -128, no two products
of one sum are more than ``128 * 128 + 128 * 127``, which fits, whichever two meet.
"""

from __future__ import annotations

import numpy as np

LEAST = int(np.iinfo("int8").min)


def why_words_overflow(weights: np.ndarray) -> str | None:
    """Return why two products of one sum may not fit 16 bits, or None.

    Parameters
    ----------
    weights
        Bytes, ``[N, ...]``: those of each of N outputs.
    """
    by_output = weights.reshape(len(weights), -1)
    most = int((by_output == LEAST).sum(axis=1).max(initial=0))
    if most < 2:
        return None
    return f"an output has {most} weights of {LEAST}, and two products of those may not fit 16 bits"
