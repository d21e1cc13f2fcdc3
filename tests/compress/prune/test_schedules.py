from __future__ import annotations

import pytest

from tvm_fusionx.compress.prune.schedules import cubic_sparsity, learning_rate, stage_of


def test_sparsity_rises_fast_and_then_slowly() -> None:
    at = [cubic_sparsity(step / 4, 0.8) for step in range(6)]
    assert at == pytest.approx([0, 0.4625, 0.7, 0.7875, 0.8, 0.8])
    assert cubic_sparsity(0, 0.8, 0.2) == pytest.approx(0.2)
    assert cubic_sparsity(-1, 0.8) == pytest.approx(0)


def test_stages_are_equally_long() -> None:
    assert [stage_of(step, 6, (1, 2, 3)) for step in range(8)] == [1, 1, 2, 2, 3, 3, 3, 3]
    assert stage_of(5, 0, (7,)) == 7


def test_the_rate_rises_and_falls_to_nothing() -> None:
    rates = [learning_rate(step, 20, 0.1, 0.1) for step in range(20)]
    assert rates[:3] == pytest.approx([0.05, 0.1, 0.1])
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert 0 < rates[-1] < 0.002
