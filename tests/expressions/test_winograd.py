"""The operator of minimal filtering as tensor expressions, without any schedule of ours."""

from __future__ import annotations

import pytest
import tvm
from tvm import relay

from tests.relay_modules import assert_close, inputs_of, module, run_plain, var
from tests.sampled import few_fast
from tests.schedules.winograd_convolution import WINOGRAD_TOLERANCE, direct, filtered
from tvm_fusionx.expressions.minimal_filtering import FILTERINGS
from tvm_fusionx.expressions.winograd import register_winograd


@pytest.mark.parametrize("transforms_weights", [False, True])
@pytest.mark.parametrize("tile", few_fast(FILTERINGS, 1))
def test_tvm_builds_the_operator_by_itself(tile: int, transforms_weights: bool) -> None:
    case = ((1, 8, 6, 5), 16, (1, 1, 1, 1))
    inputs = inputs_of(module(direct(*case)))
    found = run_plain(module(filtered(*case, tile, transforms_weights=transforms_weights)), inputs)
    assert_close(found, run_plain(module(direct(*case)), inputs), WINOGRAD_TOLERANCE)


def test_data_that_is_not_blocked_is_left_to_tvm() -> None:
    register_winograd()
    call = relay.nn.contrib_conv2d_winograd_without_weight_transform(
        var("x", 1, 4, 6, 6),
        var("w", 6, 6, 4, 8),
        tile_size=4,
        padding=(1, 1),
        channels=8,
        kernel_size=(3, 3),
        data_layout="NCHW",
    )
    with pytest.raises((RuntimeError, tvm.TVMError), match=r"(?i)unsupported|winograd"):
        relay.build(module(call), "llvm")
