"""Operators with windows or axes on blocked tensors, and those that must leave the layout."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.layout.test_convolution import Avx, module_of
from tests.relay_modules import (
    REASSOCIATING,
    const,
    module,
    var,
)
from tests.sampled import few_fast
from tests.verified_kernels import assert_same_numbers
from tvm_fusionx.ecg import from_relay
from tvm_fusionx.layout import pack_convolutions

DATA = var("x", 1, 3, 6, 4)


def _conv(outputs: int = 8, batch: int = 1) -> relay.Expr:
    data = DATA if batch == 1 else var("x", batch, 3, 6, 4)
    return relay.nn.conv2d(data, const(outputs, 3, 1, 1, seed=outputs))


STAY = {
    "maximum": relay.nn.max_pool2d(_conv(), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    "average": relay.nn.avg_pool2d(_conv(), (2, 2), (2, 2), count_include_pad=True),
    "adaptive": relay.nn.adaptive_avg_pool2d(_conv(), (3, 2)),
    "resize": relay.image.resize2d(_conv(), (9, 8), method="linear"),
    "upsampling": relay.nn.upsampling(_conv(), 2, 2),
    "repeat": relay.repeat(_conv(), 3, -1),
    "pad": relay.nn.pad(_conv(), ((0, 0), (0, 0), (1, 2), (0, 3)), 1.5),
    "pad images": relay.nn.pad(_conv(), ((1, 2), (0, 0), (0, 0), (0, 1))),
    "slice images": relay.strided_slice(_conv(batch=4), [1], [4], [2], axes=[0]),
    "slice rows": relay.strided_slice(_conv(), [0, 0, 1], [1, 8, 5]),
    "slice backwards": relay.strided_slice(_conv(), [-1], [-4], [-2], axes=[2]),
    "concatenate": relay.concatenate([_conv(8), _conv(16)], axis=1),
    "concatenate rows": relay.concatenate([_conv(8), relay.nn.relu(_conv(8))], axis=2),
    "sum": relay.sum(_conv(), axis=[-1, 2], keepdims=True),
}
MIXED = {
    "chunks of 16 and 8": relay.concatenate([_conv(16), _conv(24)], axis=1),
    "a sum of such chunks": relay.concatenate([_conv(24), _conv(8), _conv(16)], axis=1) + _conv(48),
}
LEAVE = {
    "pad channels": relay.nn.pad(_conv(), ((0, 0), (1, 0), (0, 0), (0, 0))),
    "slice channels": relay.strided_slice(_conv(16), [0], [8], axes=[1]),
    "reverse channels": relay.strided_slice(_conv(), [-1], [-9], [-1], axes=[1]),
    "slice by sizes": relay.strided_slice(_conv(), [0, 0, 1], [1, 8, 3], slice_mode="size"),
    "chunks differ": relay.concatenate([_conv(8), _conv(12)], axis=1),
    "repeat channels": relay.repeat(_conv(), 2, 1),
    "sum of channels": relay.sum(_conv(), axis=[1]),
    "sum of all but": relay.sum(_conv(), axis=[0, 1], exclude=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", few_fast(MIXED, 1))
def test_chunks_of_two_widths_meet_in_the_narrower(name: str) -> None:
    body = MIXED[name]
    made = from_relay(module(body)["main"])
    pack_convolutions(made, Avx(16))
    joined = next(node for node in made.calls() if node.op == "concatenate")
    assert joined.outputs[0].shape[-1] == 8
    assert_same_numbers(module_of(made), module(body), REASSOCIATING)


@pytest.mark.parametrize("name", few_fast([*STAY, *LEAVE], 1))
def test_operators_follow_or_get_the_image(name: str) -> None:
    stays = name in STAY
    body = STAY[name] if stays else LEAVE[name]
    made = from_relay(module(body)["main"])
    assert pack_convolutions(made, Avx()) >= 1
    last = made.outputs[0].node
    left_after_it = last.op in ("layout_transform", "reshape")
    assert left_after_it == stays
    assert_same_numbers(module_of(made), module(body), REASSOCIATING)
