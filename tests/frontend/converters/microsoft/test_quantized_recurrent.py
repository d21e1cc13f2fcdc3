from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.converters.microsoft.by_onnx_runtime import (
    Call,
    check,
    floats,
    integers,
    translate,
)
from tvm_fusionx.errors import UnsupportedOperatorError

pytestmark = pytest.mark.slow

STEPS, FEATURES, HIDDEN = 5, 6, 4
GATES = 4 * HIDDEN
KNOWN = (1, 2, 8, 9, 10, 11)
# A state that falls on the other side of half a step changes all that follows by a step of 1/255.
TOLERANCE = 5e-3


def call(
    directions: int = 1,
    batch: int = 1,
    dtype: str = "int8",
    columns: int = 1,
    optional: Any = (None,) * 5,
    **attributes: Any,
) -> Call:
    shape = [directions] if columns == 1 else [directions, columns]
    zero = np.zeros(shape, dtype) if dtype == "int8" else np.full(shape, 130, dtype)
    scales = [np.abs(floats(*shape, seed=i)) * 0.004 + 0.004 for i in (8, 9)]
    inputs = [
        floats(STEPS, batch, FEATURES),
        integers(dtype, directions, FEATURES, GATES, seed=1),
        integers(dtype, directions, HIDDEN, GATES, seed=2),
        *optional,
        scales[0],
        zero,
        scales[1],
        zero,
    ]
    given = {"hidden_size": HIDDEN, **attributes}
    return Call("DynamicQuantizeLSTM", inputs, given, KNOWN, (True, True, True))


def bias(directions: int = 1) -> Any:
    return floats(directions, 2 * GATES, seed=3)


def test_layers_agree_with_onnx_runtime() -> None:
    start = [floats(1, 1, HIDDEN, seed=i) for i in (4, 5)]
    check(
        [
            call(),
            call(dtype="uint8"),
            call(columns=GATES),
            call(optional=(bias(), None, *start, None)),
            call(optional=(bias(), None, *start, floats(1, 3 * HIDDEN, seed=6))),
            call(direction="reverse", input_forget=1),
            call(2, direction="bidirectional", optional=(bias(2), None, None, None, None)),
            call(activations=["HardSigmoid", "Tanh", "Relu"], activation_alpha=[0.3]),
        ],
        TOLERANCE,
    )


def test_sequences_may_end_early() -> None:
    lengths = np.asarray([3], "int32")
    check([call(optional=(None, lengths, None, None, None))], TOLERANCE)


def test_weights_of_another_shape_are_refused() -> None:
    wrong = call()
    inputs = list(wrong.inputs)
    inputs[8] = np.ones((1, 3), "float32")
    with pytest.raises(UnsupportedOperatorError, match="one scale of W for each direction"):
        translate(Call(wrong.op_type, inputs, wrong.attributes, KNOWN))
