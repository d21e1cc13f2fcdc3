from __future__ import annotations

import pytest

from tvm_fusionx.compress.prune.budget import MOST_SPARSITY, least_sparsity, most_sparsity
from tvm_fusionx.errors import InputError


def _latency(sparsity: float) -> float:
    return 1 + 9 * (1 - sparsity)


def test_the_least_sparsity_that_is_fast_enough() -> None:
    found, history = least_sparsity(_latency, 3.0, 12)
    # 3 = 1 + 9 (1 - s)
    assert 7 / 9 <= found < 7 / 9 + 1e-3
    assert len(history) == 14
    assert all(ms == _latency(sparsity) for sparsity, ms in history)
    assert least_sparsity(_latency, 10.0, 5) == (0.0, ((0.0, 10.0),))


def test_a_time_that_nothing_reaches_is_told() -> None:
    with pytest.raises(InputError, match=r"10.000 ms dense and 1.180 ms at the most"):
        least_sparsity(_latency, 1.0, 5)


def test_the_most_sparsity_that_is_good_enough() -> None:
    asked = []

    def score(sparsity: float) -> float:
        asked.append(sparsity)
        return 1 - sparsity**4

    found, history = most_sparsity(score, 0.5, 12)
    assert found is not None
    assert 0.5**0.25 - 1e-3 < found <= 0.5**0.25
    assert [sparsity for sparsity, _ in history] == asked
    assert asked[0] == MOST_SPARSITY
    # All of it at once where that is good enough; nothing where nothing is.
    assert most_sparsity(lambda _: 1.0, 0.5, 4) == (MOST_SPARSITY, ((MOST_SPARSITY, 1.0),))
    assert most_sparsity(lambda _: 0.0, 0.5, 3)[0] is None
