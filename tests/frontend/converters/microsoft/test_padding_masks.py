from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.converters.microsoft.by_onnx_runtime import (
    Call,
    check,
    floats,
    model_of,
    translate,
)
from tests.frontend.onnx_nodes import run
from tvm_fusionx.errors import UnsupportedOperatorError

pytestmark = pytest.mark.slow

BATCH, STEPS, HEADS, HIDDEN = 2, 5, 4, 32
X, W, B = floats(BATCH, STEPS, HIDDEN), floats(HIDDEN, 3 * HIDDEN) * 0.3, floats(3 * HIDDEN)
PAST = floats(2, BATCH, HEADS, 3, HIDDEN // HEADS, seed=1)


def call(mask: Any, past: Any = None, bias: Any = None, **attributes: Any) -> Call:
    used = (True,) if past is None else (True, True)
    inputs = [X, W, B, mask, past, bias]
    return Call("Attention", inputs, {"num_heads": HEADS, **attributes}, [1, 2], used)


def integers(*values: Any) -> Any:
    return np.asarray(values, "int32")


def random_mask(*shape: int) -> Any:
    return np.random.default_rng(0).integers(0, 2, shape).astype("int32")


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_every_form_of_a_mask_agrees_with_onnx_runtime(unidirectional: int) -> None:
    masks = [
        integers(3, 5),
        integers(4, 5, 1, 2),
        integers([1, 1, 1, 0, 0], [0, 1, 1, 1, 1]),
        random_mask(BATCH, STEPS, STEPS),
        None,
    ]
    check([call(mask, unidirectional=unidirectional) for mask in masks])


def test_masks_span_the_past() -> None:
    total = STEPS + 3
    masks = [
        integers(6, 8),
        random_mask(BATCH, total),
        random_mask(BATCH, STEPS, total),
        None,
    ]
    check([call(mask, PAST, unidirectional=1) for mask in masks])
    check([call(mask, PAST) for mask in masks])


def test_a_query_that_sees_padding_only_weighs_it() -> None:
    """All scores sink by the same number: the softmax is that of no mask."""
    check(
        [
            call(integers([0] * 5, [0] * 5)),
            call(integers(0, 0)),
            call(integers([0] * 5, [1] * 5), mask_filter_value=-2.0),
            call(integers([0, 0, 0, 1, 1], [1] * 5), unidirectional=1),
        ]
    )


def test_biases_are_added_to_the_scores() -> None:
    shapes = [(BATCH, HEADS), (1, HEADS), (BATCH, 1), (1, 1)]
    calls = [call(None, bias=floats(*shape, STEPS, STEPS)) for shape in shapes]
    mask = integers([1, 1, 1, 0, 0], [0, 1, 1, 1, 1])
    check([*calls, call(mask, bias=floats(1, HEADS, STEPS, STEPS), unidirectional=1)])


def test_a_mask_of_one_column_masks_nothing() -> None:
    plain, dummy = call(None), call(integers([0], [0]))
    np.testing.assert_array_equal(*run(*model_of([plain, dummy])))


def test_other_forms_are_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"a mask of \[2\].*found \[2, 4\]"):
        translate(call(random_mask(BATCH, 4)))
    with pytest.raises(UnsupportedOperatorError, match=r"an attention_bias of \[2 or 1"):
        translate(call(None, bias=floats(1, HEADS, STEPS, 3)))
