"""U-Net: the maps of the paper's figure."""

from __future__ import annotations

import pytest

from tests.zoo.networks.published import count, printed

pytest.importorskip("torch")
unet = pytest.importorskip("tvm_fusionx.zoo.networks.unet")


def test_sizes_are_those_of_the_figure():
    # Ronneberger et al. 2015, figure 1; the paper prints no count of parameters or operations.
    # 31.03M is the sum over the kernels of that figure.
    counted = count(unet.UNet, (1, 1, 572, 572))
    assert counted.outputs == [(1, 2, 388, 388)]
    assert counted.parameters == printed("31.03M")


def test_smaller_tiles_keep_the_border():
    assert count(unet.UNet, (1, 1, 284, 284)).outputs == [(1, 2, 284 - 184, 284 - 184)]
