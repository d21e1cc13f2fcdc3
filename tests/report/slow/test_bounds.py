from __future__ import annotations

import numpy as np
import tvm

from tvm_fusionx.report.slow import bounds


def test_all_blocks_at_their_largest_fit_into_the_file() -> None:
    refusals = bounds.MOST_REFUSALS * 400
    assert bounds.MOST_BLOCKS * (bounds.MOST_BLOCK_BYTES + refusals) <= bounds.MOST_FILE_BYTES


def test_numpy_and_tvm_know_every_dtype() -> None:
    for dtype in bounds.DTYPES:
        assert tvm.nd.array(np.zeros(1, dtype)).dtype == dtype
