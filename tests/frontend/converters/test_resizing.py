from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm.contrib.graph_executor import GraphModule

import tvm_fusionx as fx
from tests.frontend.onnx_nodes import (
    TOLERANCE,
    Case,
    assert_close,
    by_onnxruntime,
    check,
    floats,
    ints,
    model_of,
)
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

X = floats(1, 1, 4, 5)
UP = np.array([1, 1, 2, 3], "float32")
DOWN = np.array([1, 1, 0.5, 0.6], "float32")


def by_scale(scales: object, **attributes: object) -> Case:
    return Case("Resize", [X, None, scales], attributes, known=[2])


def by_size(sizes: object, **attributes: object) -> Case:
    return Case("Resize", [X, None, None, sizes], attributes, known=[3])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_modes_agree_with_the_reference(mode: str) -> None:
    coordinates = ("half_pixel", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric")
    cases = [
        by_scale(scales, mode=mode, coordinate_transformation_mode=name)
        for scales in (UP, DOWN)
        for name in coordinates
    ]
    cases.append(
        by_size(ints(1, 1, 7, 9), mode=mode, coordinate_transformation_mode="align_corners")
    )
    cases.append(by_size(ints(1, 1, 3, 8), mode=mode))
    check(cases)


@pytest.mark.parametrize(
    "nearest_mode", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
)
def test_nearest_rounds_as_asked(nearest_mode: str) -> None:
    cases = [
        by_scale(scales, nearest_mode=nearest_mode, coordinate_transformation_mode=name)
        for scales in (UP, DOWN)
        for name in ("half_pixel", "asymmetric")
    ]
    check([by_onnxruntime(case, opset=19) for case in cases], opset=19)


def test_only_the_axes_asked_for_change() -> None:
    check(
        [
            Case("Resize", [X, None, None, ints(8, 9)], {"axes": [3, 2]}, known=[3]),
            by_size(ints(1, 1, 4, 5), mode="linear"),
            by_scale(UP, mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5),
            by_scale(DOWN, mode="linear", antialias=1),
            by_scale(DOWN, mode="cubic", antialias=1),
        ]
    )


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_the_aspect_ratio_is_kept(policy: str) -> None:
    attributes = {"axes": [2, 3], "keep_aspect_ratio_policy": policy}
    check([Case("Resize", [X, None, None, ints(8, 6)], attributes, known=[3])])


def test_crops_are_filled_outside_the_image() -> None:
    roi = np.array([0, 0, -0.2, 0.1, 1, 1, 1.1, 0.8], "float32")
    attributes = {
        "mode": "linear",
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 9.0,
    }
    check([Case("Resize", [X, roi, None, ints(1, 1, 6, 4)], attributes, known=[1, 3])])


@pytest.mark.parametrize("seed", range(2))
def test_kernels_of_random_resizes_are_right(seed: int) -> None:
    draw = np.random.default_rng(seed)
    cases = []
    for mode in ("linear", "nearest", "cubic"):
        rows, columns, high, wide = (int(each) for each in draw.integers(2, 40, 4))
        attributes = {
            "mode": mode,
            "coordinate_transformation_mode": str(
                draw.choice(["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
            ),
        }
        data = floats(1, 3, rows, columns, seed=seed)
        sizes = ints(1, 3, high, wide)
        case = Case("Resize", [data, None, None, sizes], attributes, known=[3])
        cases.append(by_onnxruntime(case))
    model, feeds = model_of(cases)
    mod, params = from_onnx(model)
    executor = GraphModule(fx.build(mod, "llvm -mcpu=native", params=params)["default"](tvm.cpu()))
    for name in {param.name_hint for param in mod["main"].params}:
        executor.set_input(name, feeds[name])
    executor.run()
    for number, case in enumerate(cases):
        assert case.expected is not None
        assert_close(executor.get_output(number).numpy(), case.expected[0], str(case), TOLERANCE)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
def test_whole_numbers_are_weighed_as_floats(dtype: str) -> None:
    data = np.random.default_rng(5).integers(-120, 120, (1, 1, 6, 7)).astype(dtype)
    # Halves and doubles: weights are exact, and so is which side of a half a sum is on.
    both = [ints(1, 1, 12, 14), ints(1, 1, 3, 7)]
    linear = [
        Case("Resize", [data, None, None, sizes], {"mode": "linear"}, known=[3]) for sizes in both
    ]
    rounded = [
        Case("Resize", [data, None, None, sizes], {"mode": mode, **how}, known=[3])
        for sizes in both
        for mode, how in (("cubic", {}), ("cubic", {"antialias": 1}), ("linear", {"antialias": 1}))
    ]
    check([*(by_onnxruntime(case) for case in linear), *rounded])


def test_no_element_is_left() -> None:
    check(
        [
            by_scale(np.array([1, 1, 0.2, 1], "float32"), mode=mode)
            for mode in ("nearest", "linear", "cubic")
        ]
    )


def test_whole_factors_repeat_elements() -> None:
    model, _ = model_of(
        [by_scale(UP, nearest_mode="floor", coordinate_transformation_mode="asymmetric")]
    )
    body = from_onnx(model)[0]["main"].body
    assert body.op.name == "repeat"
    assert body.args[0].op.name == "repeat"


def test_a_disputed_length_is_refused() -> None:
    model, _ = model_of(
        [by_scale(DOWN * 0.9, mode="linear", coordinate_transformation_mode="align_corners")]
    )
    with pytest.raises(UnsupportedOperatorError, match=r"disagree.*Give sizes instead"):
        from_onnx(model)


def test_upsample_is_an_asymmetric_resize() -> None:
    scales = np.array([1, 1, 2, 2], "float32")
    expected = X.repeat(2, axis=2).repeat(2, axis=3)
    check([Case("Upsample", [X, scales], known=[1], expected=[expected])], opset=9)
