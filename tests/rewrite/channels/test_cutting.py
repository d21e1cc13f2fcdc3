"""A graph without some channels: constants, attributes and types are those of what stays."""

from __future__ import annotations

from tvm import relay

from tests.relay_modules import EXACT, assert_close, graph, inputs_of, module
from tests.rewrite.channels.dead_channels import (
    CHANNELS,
    DEAD,
    LEFT,
    bias,
    features,
    in_numpy,
    pointwise,
)
from tvm_fusionx.ecg import from_relay
from tvm_fusionx.rewrite.channels.cutting import cut
from tvm_fusionx.rewrite.channels.following import follow
from tvm_fusionx.rewrite.channels.liveness import can_go, zero_channels


def test_everything_along_the_way_is_cut() -> None:
    mod = module(
        relay.nn.softmax(pointwise(features() + bias(CHANNELS, 1, 1, axis=0), CHANNELS, 4))
    )
    found = from_relay(mod["main"])
    inputs = inputs_of(mod)
    expected = in_numpy(found, inputs)
    flows = follow(found)
    zero = zero_channels(flows)
    living = LEFT - 4
    cut(found, flows, can_go(flows, zero))
    assert living == CHANNELS - len(DEAD)
    shapes = [[value.shape for value in (*node.operands, *node)] for node in found.calls()]
    inner = (1, living, 8, 8)
    assert shapes == [
        [(1, 3, 8, 8), (living, 3, 3, 3), inner],
        [inner, (living, 1, 1), inner],
        [inner, inner],
        [inner, (living, 1, 1), inner],
        [inner, (4, living, 1, 1), (1, 4, 8, 8)],
        [(1, 4, 8, 8), (1, 4, 8, 8)],
    ]
    assert found.calls()[0].attrs["channels"] == living
    assert_close(in_numpy(found, inputs), expected, EXACT)


def test_names_and_what_is_not_touched_stay() -> None:
    span = relay.Span(relay.SourceName("stem/relu"), 0, 0, 0, 0)
    layer = features()
    named = relay.Call(layer.op, layer.args, layer.attrs, span=span)
    found = graph(
        pointwise(named, CHANNELS, 4), relay.exp(pointwise(features(zero=()), CHANNELS, 4))
    )
    flows = follow(found)
    untouched = [node for node in found.calls() if node.op == "exp"]
    cut(found, flows, can_go(flows, zero_channels(flows)))
    assert [node for node in found.calls() if node.op == "exp"] == untouched
    assert [node.outputs[0].shape for node in found.calls() if node.name == "stem/relu"] == [
        (1, CHANNELS - len(DEAD), 8, 8)
    ]


def test_nothing_to_cut_changes_nothing() -> None:
    found = graph(pointwise(features(zero=()), CHANNELS, 4))
    before = found.calls()
    flows = follow(found)
    cut(found, flows, can_go(flows, zero_channels(flows)))
    assert found.calls() == before
