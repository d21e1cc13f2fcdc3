"""What is recognised as a blocked window, and why other blocks are not."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import var
from tests.schedules.blocked_blocks import dense, depthwise, describe
from tvm_fusionx.schedules.windows.structure import Window, find_window


def _window(body: relay.Expr) -> Window:
    window = find_window(describe(body))
    assert isinstance(window, Window), window
    return window


def test_a_dense_convolution_is_read_from_its_indices() -> None:
    body = dense(
        16, (9, 11), 24, (3, 5), strides=(2, 1), padding=(1, 2, 1, 2), dilation=(1, 2), batch=2
    )
    window = _window(body)
    assert window.out_shape == (2, 3, 5, 7, 8)
    assert (window.kernel, window.stride, window.dilation) == ((3, 5), (2, 1), (1, 2))
    assert (window.in_channels, window.block_in, window.sums_channels) == (16, 8, True)
    assert window.macs == 2 * 24 * 5 * 7 * 16 * 15
    assert window.rows_read(2) == 5


def test_a_depthwise_convolution_sums_no_channels() -> None:
    window = _window(depthwise(12, (5, 5), (3, 3), block=6))
    assert (window.in_channels, window.sums_channels, window.block_out) == (1, False, 6)


X = var("x", 1, 2, 6, 6, 8)
NOT_WINDOWS = {
    "it has 0 reductions, not one": relay.nn.relu(X),
    "its reduction has not the axes of a blocked convolution": relay.sum(X, axis=[4]),
    "its reduction does not read one blocked tensor": relay.sum(
        var("y", 1, 2, 6, 6, 8, 3, 3), axis=[5, 6]
    ),
}


@pytest.mark.parametrize("reason", NOT_WINDOWS)
def test_what_is_no_window_says_why(reason: str) -> None:
    assert find_window(describe(NOT_WINDOWS[reason])) == reason


def test_several_outputs_are_refused() -> None:
    pooled = relay.nn.max_pool2d(X, (2, 2), (2, 2), layout="NCHW8c")
    body = relay.Tuple([pooled, relay.nn.relu(pooled)])
    assert find_window(describe(body)) == "it writes 2 tensors, not one"
