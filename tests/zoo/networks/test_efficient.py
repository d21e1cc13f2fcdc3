"""EfficientNet: the counts of its paper."""

from __future__ import annotations

import pytest

from tests.zoo.networks.published import count, printed

pytest.importorskip("torch")
efficient = pytest.importorskip("tvm_fusionx.zoo.networks.efficient")


def test_counts_are_the_published_ones():
    # Tan and Le 2019, table 2.
    counted = count(efficient.efficientnet_b0, (1, 3, 224, 224))
    assert counted.parameters == printed("5.3M")
    assert counted.multiply_adds == printed("0.39G")
    assert counted.outputs == [(1, 1000)]
