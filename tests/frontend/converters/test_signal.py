from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats, ints, run
from tests.frontend.small_models import model, value
from tvm_fusionx.errors import UnsupportedOperatorError

X = floats(2, 6, 3, 1)


def parts(values: object) -> object:
    values = np.asarray(values)
    return np.stack([values.real, values.imag], -1).astype("float32")


def test_transforms_agree_with_numpy() -> None:
    signal = X[..., 0].astype("float64")
    pair = floats(2, 6, 2)
    complex_signal = pair[..., 0] + 1j * pair[..., 1].astype("float64")
    axis = ints(1)[0]
    check(
        [
            Case("DFT", [X, None, axis], known=[2], expected=[parts(np.fft.fft(signal, axis=1))]),
            Case(
                "DFT",
                [X, None, axis],
                {"onesided": 1},
                known=[2],
                expected=[parts(np.fft.rfft(signal, axis=1))],
            ),
            Case(
                "DFT",
                [X, ints(4)[0], axis],
                known=[1, 2],
                expected=[parts(np.fft.fft(signal, 4, axis=1))],
            ),
            Case(
                "DFT",
                [pair, None, axis],
                {"inverse": 1},
                known=[2],
                expected=[parts(np.fft.ifft(complex_signal, axis=1))],
            ),
        ]
    )


def test_the_axis_is_an_attribute_before_opset_20() -> None:
    expected = parts(np.fft.fft(X[..., 0].astype("float64"), axis=2))
    check([Case("DFT", [X], {"axis": 2}, expected=[expected])], opset=17)


@pytest.mark.parametrize("length", [None, 8, 9, 6, 14])
def test_half_a_spectrum_becomes_a_real_signal(length: int | None) -> None:
    half = floats(2, 5, 3, 2)
    spectrum = half[..., 0] + 1j * half[..., 1].astype("float64")
    expected = np.fft.irfft(spectrum, length, axis=1)[..., None].astype("float32")
    case = Case(
        "DFT",
        [half, None if length is None else ints(length)[0], ints(1)[0]],
        {"inverse": 1, "onesided": 1},
        known=[1, 2],
        expected=[expected],
    )
    check([case], 20)


def test_there_and_back_is_the_signal() -> None:
    x = floats(1, 10, 1)
    nodes = [
        helper.make_node("DFT", ["x", "", "axis"], ["half"], onesided=1),
        helper.make_node("DFT", ["half", "", "axis"], ["y"], onesided=1, inverse=1),
    ]
    given = model(nodes, [value("x", x.shape)], ["y"], {"axis": np.array(1)}, opset=20)
    np.testing.assert_allclose(run(given, {"x": x})[0], x, atol=1e-6)


def test_frames_are_weighed_and_transformed() -> None:
    x = floats(2, 50, 1)
    window = np.hanning(16).astype("float32")
    step, length = ints(5)[0], ints(16)[0]
    cases = [
        Case("STFT", [x, step, window], known=[1, 2]),
        Case("STFT", [x, step, window], known=[1]),
        Case("STFT", [x, step, None, length], {"onesided": 0}, known=[1, 3]),
        Case("STFT", [x, step, window, length], known=[1, 2, 3]),
        Case("STFT", [x, step, floats(9), None], {"onesided": 0}, known=[1, 2]),
    ]
    check([by_onnxruntime(case, 17) for case in cases], 17)
    pair = floats(1, 20, 2)
    frames = np.stack([pair[0, i : i + 8] for i in range(0, 13, 4)]).astype("float64")
    expected = parts(np.fft.fft(frames[..., 0] + 1j * frames[..., 1]))[None]
    complex_case = Case(
        "STFT", [pair, ints(4)[0], None, ints(8)[0]], {"onesided": 0}, [1, 3], expected=[expected]
    )
    check([complex_case], 17)


@pytest.mark.parametrize(
    ("inputs", "attributes", "match"),
    [
        ([X[:, :, 0], ints(0)[0], None, ints(4)[0]], {}, "step 0"),
        ([X[:, :, 0], ints(1)[0], None, ints(9)[0]], {}, "frames of 9 in 6"),
        ([X[:, :, 0], ints(1)[0], floats(5), ints(4)[0]], {}, r"a window of \[5\]"),
        ([floats(1, 6, 2), ints(1)[0], None, ints(4)[0]], {}, "a complex one"),
    ],
)
def test_frames_that_do_not_fit_are_refused(inputs: Any, attributes: Any, match: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=match):
        check([Case("STFT", inputs, attributes, known=[1, 3], expected=[])], 17)


def test_a_transform_of_the_axis_of_parts_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="an axis before the last"):
        check([Case("DFT", [X, None, ints(3)[0]], known=[2], expected=[])], 20)
