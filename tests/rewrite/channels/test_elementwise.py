"""Channels pass operators of elements; zeros stay zeros where the function of zero is."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph, var
from tests.rewrite.channels.dead_channels import (
    CHANNELS,
    DEAD,
    IMAGE,
    LEFT,
    bias,
    channels_of,
    dropped,
    features,
    pointwise,
    weights,
)
from tvm_fusionx.rewrite.channels.following import follow

C = CHANNELS
half = relay.const(np.float32(0.5))

KEEP_ZEROS = {
    "relu": relay.nn.relu,
    "leaky relu": lambda x: relay.nn.leaky_relu(x, alpha=0.1),
    "a clip around zero": lambda x: relay.clip(x, 0, 6),
    "tanh": relay.tanh,
    "erf": relay.erf,
    "a root": relay.sqrt,
    "hard swish": lambda x: x * relay.clip(x + relay.const(np.float32(3)), 0, 6) / half,
    "swish": lambda x: x * relay.sigmoid(x),
    "a power": lambda x: relay.power(x, relay.const(np.float32(2))),
    "a scale for each": lambda x: x * weights(C, 1, 1),
    "a bias that is zero there": lambda x: x + bias(C, 1, 1, axis=0),
    "a bias": lambda x: relay.nn.bias_add(x, bias(C, axis=0)),
    "prelu": lambda x: relay.nn.prelu(x, weights(C)),
    "the larger of both": lambda x: relay.maximum(x, relay.negative(x)),
    "halves and back": lambda x: relay.cast(relay.cast(x, "float32"), "float32"),
}


@pytest.mark.parametrize("name", KEEP_ZEROS)
def test_zeros_stay_zeros(name: str) -> None:
    found, _ = dropped(pointwise(KEEP_ZEROS[name](features()), C, 4))
    assert channels_of(found) == [LEFT, 4]


MAKE_OTHERS = {
    "sigmoid": relay.sigmoid,
    "exp": relay.exp,
    "a clip above zero": lambda x: relay.clip(x, 1, 6),
    "a number": lambda x: x + half,
    "a bias for each": lambda x: x + weights(C, 1, 1),
    "a quotient by zero": lambda x: relay.nn.relu(x) / x,
    "several numbers for a channel": lambda x: x + weights(C, 8, 8, zero=DEAD[1:]),
    "a prelu of a number": lambda x: relay.nn.prelu(x + half, weights(C, zero=DEAD)),
}


@pytest.mark.parametrize("name", MAKE_OTHERS)
def test_what_is_no_longer_zero_stays_where_it_is_read(name: str) -> None:
    result = pointwise(MAKE_OTHERS[name](features()), C, 4)
    assert not dropped(result)[1]


@pytest.mark.parametrize("name", sorted({*KEEP_ZEROS, *MAKE_OTHERS} - {"a quotient by zero"}))
def test_what_nobody_reads_goes_whatever_it_is(name: str) -> None:
    make = {**KEEP_ZEROS, **MAKE_OTHERS}[name]
    found, _ = dropped(pointwise(make(features(zero=())), C, 4, zero=DEAD, axis=1))
    assert channels_of(found) == [LEFT, 4]


def test_a_scale_of_zeros_makes_zeros() -> None:
    scaled = features(zero=()) * weights(C, 1, 1, zero=DEAD)
    found, _ = dropped(pointwise(scaled, C, 4))
    assert channels_of(found) == [LEFT, 4]


def test_a_sum_is_zero_where_both_are() -> None:
    first, second = features(), features(zero=range(24), seed=2)
    found, _ = dropped(pointwise(first + second, C, 4))
    # Zero in both are 14: eight go, and six stay to fill a chunk.
    assert channels_of(found) == [24, 24, 4]


def test_one_channel_weighs_all_others() -> None:
    """Focal modulation: a slice of a layer is the gate of another slice."""
    both = pointwise(features(zero=()), C, C + 1, zero=DEAD)
    values = relay.strided_slice(both, [0], [C], axes=[1])
    gate = relay.strided_slice(both, [C], [C + 1], axes=[1])
    found, _ = dropped(pointwise(values * gate, C, 4))
    assert channels_of(found)[-1] == 4


def test_a_constant_is_cut_for_each_of_its_readers() -> None:
    """Equal constants are one in the graph; that ties nothing together."""
    shift = bias(C, 1, 1, axis=0, zero=())
    one = pointwise(features() * shift, C, 4)
    other = pointwise(features(zero=(), seed=2) * shift, C, 4, seed=3)
    found, _ = dropped(one + other)
    assert channels_of(found) == [LEFT, 4, C, 4]


def test_a_weight_for_each_channel_goes_with_it() -> None:
    """Squeeze and excite: the mean of a channel decides how much of it is taken."""
    layer = features()
    mean = relay.mean(layer, axis=[2, 3], keepdims=True)
    gate = relay.sigmoid(pointwise(relay.nn.relu(pointwise(mean, C, 8)), 8, C))
    found, _ = dropped(pointwise(layer * gate, C, 4))
    assert channels_of(found) == [LEFT, 8, LEFT, 4]


REFUSED = {
    "an operand has no channels that can be followed": lambda: pointwise(
        features() * var("mask", 1, C, 1, 1), C, 4
    ),
    "its operands have channels along different axes": lambda: pointwise(
        relay.nn.dense(var("rows", 8, 12), weights(C, 12))
        + relay.nn.conv2d(IMAGE, weights(C, 3, 1, 8), padding=(0, 0, 0, C - 1)),
        C,
        4,
    ),
    "it makes int8 of them": lambda: relay.cast(features(), "int8"),
    "it makes bool of them": lambda: relay.where(
        features() > half, features(seed=4), features(seed=4)
    ),
    "its second operand is no constant along the channels": lambda: pointwise(
        relay.nn.bias_add(features(), var("bias", C)), C, 4
    ),
    "its operand is no value with channels": lambda: relay.nn.bias_add(
        IMAGE, relay.reshape(relay.nn.conv2d(IMAGE, weights(3, 3, 8, 8)), (3,))
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_channels_end_at(reason: str) -> None:
    result = REFUSED[reason]()
    ends = follow(graph(result)).ends.values()
    assert [end for end in ends if reason in end], set(ends)
    assert not dropped(result)[1]
