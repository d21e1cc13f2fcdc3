"""What stands before a product is computed as it is gathered, or refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relay

from tests.relay_modules import var
from tests.schedules.blocked_blocks import AVX512, describe
from tests.schedules.sparse_blocks import Window, pruned, window
from tvm_fusionx.expressions.sparse_products import STAGE
from tvm_fusionx.schedules.sparse.gather import find_source

CASE = Window(1, 8, 8, 4, 4)


def _source(data: Any) -> Any:
    body, _ = window(CASE, pruned(8, CASE.columns, 8, 0.5), 8, 8, data=data)
    info = describe(body, AVX512)
    (data_read,) = (
        buffer
        for buffer in info.stages[STAGE].reads
        if len(buffer.shape) == len(CASE.image().shape)
    )
    return find_source(info, STAGE, data_read)


@pytest.mark.parametrize("is_scaled", [False, True])
def test_a_tensor_or_what_is_computed_of_it(is_scaled: bool) -> None:
    x = var("x", 1, 1, 4, 4, 8)
    source = _source(relay.exp(x) * var("gate", 1, 1, 1, 1, 8) if is_scaled else x)
    assert source.is_stored is not is_scaled
    text = str(source.element(0, 0, 1, 2, 3))
    assert ("exp" in text) is is_scaled
    assert ("gate" in text) is is_scaled


def test_sums_are_not_computed_on_the_way() -> None:
    pooled = relay.nn.avg_pool2d(
        var("x", 1, 1, 4, 4, 8), pool_size=(3, 3), padding=(1, 1), layout="NCHW8c"
    )
    assert _source(pooled) == "what it reads is summed up in the same kernel"
