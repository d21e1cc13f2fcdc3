"""What a choice keeps: read strictly."""

from __future__ import annotations

import base64
from dataclasses import replace

import numpy as np
import pytest

from tvm_fusionx.reuse.kept import Kept


def _text(*numbers: float) -> str:
    return base64.b64encode(np.array(numbers, "<f4").tobytes()).decode()


KEPT = Kept(((1, 3), (0,)), _text(1, 2, 3, 4, 5, 6))


def test_codes_and_means() -> None:
    assert KEPT.why_wrong(2, 2, 2) is None
    assert KEPT.most == 2
    assert KEPT.table(2).tolist() == [[-1, 0, -1, 1], [0, -1, -1, -1]]
    assert [each.tolist() for each in KEPT.by_segment(2)] == [[[1, 2], [3, 4]], [[5, 6]]]


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        (replace(KEPT, codes=((1, 3),)), "kept clusters of 1 segments, not of 2"),
        (replace(KEPT, codes=((3, 1), (0,))), "kept codes that are not 1 to 256 ascending ones"),
        (replace(KEPT, codes=((), (0,))), "kept codes that are not 1 to 256 ascending ones"),
        (replace(KEPT, codes=((1, 4), (0,))), "kept codes that have not 2 bits"),
        (replace(KEPT, means="?"), "kept means that cannot be read"),
        (replace(KEPT, means=_text(1, 2)), "2 kept means, not 6 finite ones"),
        (replace(KEPT, means=_text(*[1] * 5, np.nan)), "6 kept means, not 6 finite ones"),
    ],
)
def test_what_is_wrong_is_told(kept: Kept, told: str) -> None:
    assert str(kept.why_wrong(2, 2, 2)).startswith(told)
