"""YOLO-V4: the counts of its published configuration."""

from __future__ import annotations

import pytest

from tests.zoo.networks.published import count, printed

pytest.importorskip("torch")
yolo_v4 = pytest.importorskip("tvm_fusionx.zoo.networks.yolo_v4")


def test_counts_are_the_published_ones():
    # The paper's repository prints 60.1 BFLOPs at 416, two a multiply-add.
    counted = count(yolo_v4.YoloV4, (1, 3, 416, 416))
    assert 2 * counted.multiply_adds == printed("60.1G")
    assert counted.outputs == [(1, 255, 52, 52), (1, 255, 26, 26), (1, 255, 13, 13)]


def test_weights_fill_the_published_file():
    # yolov4.weights has 257,717,640 bytes: a head of 20, then float32 parameters and, for each
    # channel of a norm, a running mean and variance.
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        network = yolo_v4.YoloV4()
    parameters = sum(parameter.numel() for parameter in network.parameters())
    normed = sum(
        module.num_features
        for module in network.modules()
        if isinstance(module, torch.nn.BatchNorm2d)
    )
    assert 4 * (parameters + 2 * normed) + 20 == 257_717_640


def test_there_are_110_convolutions():
    # The configuration file lists 110 sections named [convolutional], 72 of them with mish.
    kinds = [type(module).__name__ for module in yolo_v4.YoloV4().modules()]
    assert kinds.count("Conv2d") == 110
    assert kinds.count("Mish") == 72
