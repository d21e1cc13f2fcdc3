"""Bicubic sampling: which pixels stand for those outside an image, and what they weigh."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import arith, te, tir

from tests.relay_modules import REASSOCIATING
from tests.verified_kernels import assert_kernel
from tvm_fusionx.expressions.bicubic import sample_bicubic, within

torch = pytest.importorskip("torch")

PADDINGS = ("zeros", "border", "reflection")


def _values(size: int, padding_mode: str, align_corners: bool, places: range) -> list[int]:
    analyzer = arith.Analyzer()
    at = [tir.const(place, "int32") for place in places]
    found = [within(place, tir.const(size, "int32"), padding_mode, align_corners) for place in at]
    return [int(analyzer.simplify(each)) for each in found]


@pytest.mark.parametrize(
    ("padding_mode", "align_corners", "expected"),
    [
        ("zeros", True, [-4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6]),
        ("border", False, [0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2]),
        ("reflection", True, [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2]),
        ("reflection", False, [2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0]),
    ],
)
def test_a_place_outside_has_a_pixel(
    padding_mode: str, align_corners: bool, expected: list[int]
) -> None:
    assert _values(3, padding_mode, align_corners, range(-4, 7)) == expected


@pytest.mark.parametrize("align_corners", [True, False])
def test_one_pixel_stands_for_all(align_corners: bool) -> None:
    assert _values(1, "reflection", align_corners, range(-4, 5)) == [0] * 9


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_samples_are_those_of_pytorch(padding_mode: str, align_corners: bool) -> None:
    image, places = (2, 2, 7, 5, 4), (2, 2, 3, 11)
    data, grid = te.placeholder(image, name="data"), te.placeholder(places, name="grid")
    shape = (*image[:2], *places[2:], image[-1])
    result = sample_bicubic(data, grid, padding_mode, align_corners, shape)
    generator = np.random.default_rng(0)
    values = generator.standard_normal(image).astype("float32")
    at = generator.uniform(-2.5, 2.5, places).astype("float32")
    planes = torch.from_numpy(values.transpose(0, 1, 4, 2, 3).reshape(2, 8, 7, 5))
    sampled = torch.nn.functional.grid_sample(
        planes.double(),
        torch.from_numpy(at.transpose(0, 2, 3, 1).copy()).double(),
        "bicubic",
        padding_mode,
        align_corners,
    )
    expected = sampled.numpy().reshape(2, 2, 4, 3, 11).transpose(0, 1, 3, 4, 2)
    func = te.create_prim_func([data, grid, result])
    assert_kernel(func, "llvm", [values, at], [expected.astype("float32")], REASSOCIATING)
