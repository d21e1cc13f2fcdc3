"""PIXOR and PointPillars: the sums over their layers, and pillars that stand where they belong."""

from __future__ import annotations

import pytest

from tests.zoo.networks.published import count

torch = pytest.importorskip("torch")
birds_eye = pytest.importorskip("tvm_fusionx.zoo.networks.birds_eye")

PER_NORM = 2


def _conv(inputs: int, outputs: int, kernel: int) -> int:
    return inputs * outputs * kernel**2 + PER_NORM * outputs


def test_pixor_counts_are_the_sum_over_its_layers() -> None:
    # The paper prints no counts; layers and channels are those of its figure 2.
    wanted = _conv(36, 32, 3) + _conv(32, 32, 3)
    inputs = 32
    for inner, blocks in ((24, 3), (48, 6), (64, 6), (96, 3)):
        outputs = 4 * inner
        for block in range(blocks):
            wanted += _conv(inputs, inner, 1) + _conv(inner, inner, 3) + _conv(inner, outputs, 1)
            wanted += _conv(inputs, outputs, 1) if block == 0 else 0
            inputs = outputs
    wanted += (384 * 196 + 196) + (256 * 128 + 128) + (192 * 96 + 96)
    wanted += (196 * 128 * 9 + 128) + (128 * 96 * 9 + 96)
    wanted += 4 * _conv(96, 96, 3) + (96 * 7 * 9 + 7)
    counted = count(birds_eye.Pixor, (1, 36, 800, 700))
    assert counted.parameters == wanted
    assert counted.outputs == [(1, 1, 200, 175), (1, 6, 200, 175)]


def test_pointpillars_counts_are_the_sum_over_its_layers() -> None:
    wanted = _conv(9, 64, 1)
    inputs = 64
    for width, layers, factor in ((64, 4, 1), (128, 6, 2), (256, 6, 4)):
        wanted += _conv(inputs, width, 3) + (layers - 1) * _conv(width, width, 3)
        wanted += _conv(width, 128, factor)
        inputs = width
    outputs = 2 * (1 + 7 + 2)
    wanted += 384 * outputs + outputs
    with torch.device("meta"):
        model = birds_eye.PointPillars()
    assert sum(each.numel() for each in model.parameters()) == wanted


def test_each_pillar_stands_on_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(birds_eye, "PILLAR_ROWS", 8)
    monkeypatch.setattr(birds_eye, "PILLAR_COLUMNS", 16)
    model = birds_eye.PointPillars().eval()
    seen: list[torch.Tensor] = []
    model.stages[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    points = torch.zeros(2, 3, 9)
    points[1] = torch.randn(3, 9)
    with torch.no_grad():
        scores, boxes, directions = model(points, torch.tensor([5, 16 * 3 + 2]))
    assert (scores.shape, boxes.shape) == ((1, 2, 4, 8), (1, 14, 4, 8))
    assert directions.shape == (1, 4, 4, 8)
    (plane,) = seen
    assert plane.shape == (1, 64, 8, 16)
    assert plane[0, :, 3, 2].any()
    plane[0, :, 3, 2] = 0
    assert not plane.any()
