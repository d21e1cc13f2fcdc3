"""YOLOv8-n: the published counts."""

from __future__ import annotations

import pytest

from tests.zoo.networks.published import count, printed

torch = pytest.importorskip("torch")
yolo_v8 = pytest.importorskip("tvm_fusionx.zoo.networks.yolo_v8")


def test_counts_are_the_published_ones():
    # 3.2M and 8.7 billion operations, two a multiply-add, beside the published weights.
    counted = count(yolo_v8.YoloV8n, (1, 3, 640, 640))
    assert counted.parameters == printed("3.2M")
    assert 2 * counted.multiply_adds == printed("8.7G")
    assert counted.outputs == [(1, 84, 80 * 80 + 40 * 40 + 20 * 20)]


def test_a_box_lies_around_its_pixel():
    channels = (8, 8, 8)
    head = yolo_v8.Head(channels).eval()
    for predictor in head.boxes:
        torch.nn.init.zeros_(predictor[-1].weight)
        torch.nn.init.zeros_(predictor[-1].bias)
    with torch.no_grad():
        boxes = head(torch.rand(1, 8, 4, 4), torch.rand(1, 8, 2, 2), torch.rand(1, 8, 1, 1))
    # Equal shares of the distances 0 to 15 are 7.5 strides to each side.
    assert torch.allclose(boxes[0, :4, 0], torch.tensor([4.0, 4.0, 120.0, 120.0]))
    assert torch.allclose(boxes[0, :4, 5], torch.tensor([12.0, 12.0, 120.0, 120.0]))
    assert torch.allclose(boxes[0, :4, 20], torch.tensor([16.0, 16.0, 480.0, 480.0]))


def test_a_split_stage_merges_every_part():
    stage = yolo_v8.SplitStage(6, 8, 2, is_residual=True)
    assert stage.merge[0].in_channels == 4 + 4 + 4 + 4
    assert stage.eval()(torch.rand(1, 6, 5, 5)).shape == (1, 8, 5, 5)
