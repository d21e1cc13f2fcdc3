"""R-CNN's static parts: torchvision's counts, and the shapes at the cut."""

from __future__ import annotations

import pytest

from tests.zoo.networks.published import count, printed

torch = pytest.importorskip("torch")
region = pytest.importorskip("tvm_fusionx.zoo.networks.region")


def norm_parameters(make):
    """Return the scales and shifts that torchvision's detectors freeze, and do not count."""
    with torch.device("meta"):
        modules = list(make().modules())
    return 2 * sum(m.num_features for m in modules if isinstance(m, torch.nn.BatchNorm2d))


@pytest.mark.parametrize(
    ("make", "parameters"),
    # Documented with torchvision's fasterrcnn_resnet50_fpn and maskrcnn_resnet50_fpn.
    [(region.FasterRCNN, 41_755_286), (region.MaskRCNN, 44_401_393)],
)
def test_parameters_are_those_of_torchvision(make, parameters):
    counted = count(make, (1, 3, 64, 64), (4, 2, 4))
    assert counted.parameters - norm_parameters(make) == parameters


def test_operations_are_those_of_torchvision():
    # 134.38G for a picture of 800 and 1000 regions; the paper prints none.
    counted = count(region.FasterRCNN, (1, 3, 800, 800), (4, 250, 4))
    assert counted.multiply_adds == printed("134.38G")


def test_every_region_and_anchor_has_its_outputs():
    counted = count(region.MaskRCNN, (1, 3, 64, 64), (4, 2, 4))
    anchors = 3 * (16 * 16 + 8 * 8 + 4 * 4 + 2 * 2 + 1)
    assert counted.outputs == [
        (1, anchors, 1),
        (1, anchors, 4),
        (8, 91),
        (8, 364),
        (8, 91, 28, 28),
    ]
