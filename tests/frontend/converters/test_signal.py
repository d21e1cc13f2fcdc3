from __future__ import annotations

import numpy as np

from tests.frontend.onnx_nodes import Case, check, floats, ints

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
