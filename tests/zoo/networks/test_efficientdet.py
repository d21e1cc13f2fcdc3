"""EfficientDet-D0: the counts that its authors print."""

from __future__ import annotations

import pytest

from tests.zoo.networks.published import count, printed

pytest.importorskip("torch")
efficientdet = pytest.importorskip("tvm_fusionx.zoo.networks.efficientdet")


def test_counts_are_the_published_ones() -> None:
    counted = count(efficientdet.EfficientDetD0, (1, 3, 512, 512))
    # The authors' program prints 3.880067M parameters; table 1 has 2.5 billion multiply-adds.
    assert counted.parameters == 3_880_067
    assert counted.multiply_adds == printed("2.5G")
    assert counted.outputs == [(1, 49_104, 90), (1, 49_104, 4)]


def test_each_node_lies_on_a_level_beside_what_it_adds_up() -> None:
    levels = list(range(efficientdet.LEVELS))
    for level, parts in efficientdet.NODES:
        assert all(abs(level - levels[part]) <= 1 for part in parts)
        levels.append(level)
    assert set(levels[efficientdet.LEVELS :]) == set(range(efficientdet.LEVELS))
