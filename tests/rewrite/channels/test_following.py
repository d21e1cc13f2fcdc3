"""Channels begin at products, and end at what cannot pass them on."""

from __future__ import annotations

import tvm
from tvm import relay

from tests.relay_modules import graph
from tests.rewrite.channels.dead_channels import CHANNELS, IMAGE, features, pointwise, weights
from tvm_fusionx.operators import CONTRACTIONS, mapping_type_of
from tvm_fusionx.rewrite.channels.following import PASSED, PRODUCTS, follow


def test_every_operator_of_the_tables_is_one_of_tvms() -> None:
    names = set(map(str, tvm.ir.Op.list_op_names()))
    assert {*PRODUCTS, *PASSED} - names == set()
    assert set(PRODUCTS) <= CONTRACTIONS
    assert all(mapping_type_of(name) for name in PASSED)


def test_what_a_model_is_given_has_no_channels_that_may_go() -> None:
    flows = follow(graph(relay.nn.relu(IMAGE) * IMAGE))
    assert not flows.of
    assert not flows.ends


def test_channels_are_followed_from_a_product_to_the_end() -> None:
    found = graph(relay.nn.softmax(pointwise(relay.exp(features()), CHANNELS, 4), axis=1))
    flows = follow(found)
    assert [node.op for node in flows.of] == ["nn.conv2d", "add", "nn.relu", "exp", "nn.conv2d"]
    assert [node.op for node in flows.products] == ["nn.conv2d", "nn.conv2d"]
    last = flows.products[1][0]
    assert flows.ends == {
        last: "nn.softmax reads them",
    }
    (data,) = {flow.product.data for flow in flows.of.values() if flow.product} - {None}
    assert data.op == "exp"


def test_what_the_model_returns_stays() -> None:
    found = graph(features())
    assert set(follow(found).ends.values()) == {"the model returns them"}


def test_one_channel_alone_stays() -> None:
    gate = relay.sigmoid(relay.nn.conv2d(features(), weights(1, CHANNELS, 1, 1)))
    found = graph(pointwise(features() * gate, CHANNELS, 4))
    flows = follow(found)
    assert "it is the only one" in flows.ends.values()
    (multiplied,) = [node for node in found.calls() if node.op == "multiply"]
    assert flows.of[multiplied].axes == {multiplied[0]: 1}


def test_a_reader_that_is_unknown_ends_them_for_all() -> None:
    layer = features()
    found = graph(pointwise(layer, CHANNELS, 4), relay.argmax(layer, axis=1))
    assert "argmax reads them" in follow(found).ends.values()
