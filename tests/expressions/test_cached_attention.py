"""Attention of one token over a cache by its definition: numpy's numbers in plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cached_attentions import attention_call, drawn, expected
from tests.relay_modules import REASSOCIATING, assert_close, module, run_plain
from tvm_fusionx.expressions.cached_attention import OPERANDS, register_cached_attention


@pytest.mark.parametrize("position", [-1, 0, 1, 5, 12, 13])
def test_places_that_are_filled_count_and_no_others(position: int) -> None:
    register_cached_attention()
    call = attention_call(2, 3, 4, 12)
    operands = drawn(call, position)
    found = run_plain(module(call), dict(zip(OPERANDS, operands, strict=True)))
    assert np.isfinite(found[0]).all()
    assert_close(found, [expected(operands)], REASSOCIATING)


def test_the_result_is_like_the_query() -> None:
    result = module(attention_call(2, 3, 4, 12))["main"].ret_type
    assert (tuple(map(int, result.shape)), result.dtype) == ((2, 3, 4), "float32")
