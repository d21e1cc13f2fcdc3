"""MobileNetV1-SSD: the counts of the paper, and the anchors of SSD."""

from __future__ import annotations

import pytest

from tests.zoo.networks.published import count, printed

pytest.importorskip("torch")
ssd = pytest.importorskip("tvm_fusionx.zoo.networks.ssd")


def test_counts_are_the_published_ones():
    # Howard et al. 2017, table 13.
    counted = count(ssd.MobileNetSSD, (1, 3, 300, 300))
    assert counted.parameters == printed("6.8M")
    assert counted.multiply_adds == printed("1.2G")
    anchors = sum(
        size * size * number
        for size, number in zip((19, 10, 5, 3, 2, 1), (3, 6, 6, 6, 6, 6), strict=True)
    )
    assert counted.outputs == [(1, anchors, 4), (1, anchors, 91)]


def test_rows_go_over_the_map_then_the_anchors():
    torch = pytest.importorskip("torch")
    x = torch.arange(2 * 3 * 2 * 2).reshape(1, 6, 2, 2)
    rows = ssd._rows(x, 3)
    assert rows.shape == (1, 8, 3)
    # Pixel (0, 1), second anchor: channels 3, 4, 5.
    assert torch.equal(rows[0, 3], x[0, 3:, 0, 1])
