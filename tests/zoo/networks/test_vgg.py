"""VGG: the counts of its paper."""

from __future__ import annotations

import pytest

from tests.zoo.networks.published import count, printed

pytest.importorskip("torch")
vgg = pytest.importorskip("tvm_fusionx.zoo.networks.vgg")


def test_counts_are_the_published_ones():
    # Simonyan and Zisserman 2015, table 2; the operations as He et al. 2016 count them.
    counted = count(vgg.vgg16, (1, 3, 224, 224))
    assert counted.parameters == printed("138M")
    assert counted.multiply_adds == printed("15.3G")
    assert counted.outputs == [(1, 1000)]
