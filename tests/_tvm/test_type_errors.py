from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tvm import relay

from tests.relay_modules import var
from tvm_fusionx._tvm.type_errors import heard_diagnostics, plain_message

X, Y = var("x", 2, 3), var("y", 2, 4)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: X + Y, "Incompatible broadcast type TensorType([2, 3], float32) and"),
        (lambda: relay.reshape(X, (7,)), "Input tensor shape(2,3) and reshaped shape(7)"),
        (lambda: relay.concatenate([X, Y], 0), "relay.concatenate requires all tensors"),
        (lambda: relay.nn.conv2d(X, Y), "Input shape size 2 mismatch"),
        (lambda: relay.transpose(X, (0, 5)), "transpose only allows each `axis`"),
        (lambda: relay.strided_slice(X, [0], [1], axes=[7]), "indexing 7 on an array of size 2"),
        (lambda: relay.squeeze(X, [0]), "cannot squeeze axis with dimension not equal to 1"),
        (lambda: relay.nn.softmax(X, 2**40), "1099511627776 vs. 2147483647"),
        (
            lambda: relay.nn.conv2d(
                var("x", 1, 3, 8, 8), var("w", 4, 2, 3, 3), channels=4, kernel_size=(3, 3)
            ),
            "Tensor[(4, 2, 3, 3), float32] where Tensor[(4, 3, 3, 3), float32] would fit",
        ),
        (lambda: relay.nn.softmax(X, 9), "Wrong axis (9) not in expected range"),
    ],
)
def test_the_reason_stands_alone(
    make: Callable[[], Any], expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with heard_diagnostics() as heard, pytest.raises(Exception) as caught:  # noqa: PT011
        relay.transform.InferTypeLocal(make())
    message = plain_message(caught.value, heard)
    assert message.startswith(expected)
    assert not re.search(r"::|\.cc|Check failed|\n", message)
    assert capfd.readouterr().err == ""


def test_other_errors_are_told_in_one_line() -> None:
    assert plain_message(ValueError("two\n  lines")) == "two lines"
    assert plain_message(AssertionError()) == "AssertionError"


def test_scopes_nest_and_end(capfd: pytest.CaptureFixture[str]) -> None:
    with heard_diagnostics() as outer:
        with heard_diagnostics() as inner, pytest.raises(Exception):  # noqa: B017, PT011
            relay.transform.InferTypeLocal(X + Y)
        assert inner == outer != []
        with pytest.raises(Exception) as caught:  # noqa: PT011
            relay.transform.InferTypeLocal(relay.nn.softmax(X, 9))
        assert len(outer) == len(inner) + 1
    assert plain_message(caught.value, []) == "types that do not fit"
    with pytest.raises(Exception):  # noqa: B017, PT011
        relay.transform.InferTypeLocal(X + Y)
    assert "Incompatible broadcast" in capfd.readouterr().err
