from __future__ import annotations

import re

from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.fusion.describe import describe_block, labels, name_blocks
from tvm_fusionx.operators import MappingType

x = var("x", 4, 8)


def _calls(expr: relay.Expr) -> tuple:
    return tuple(graph(expr).calls())


def test_the_heaviest_operators_come_first() -> None:
    dense = relay.nn.dense(relay.reshape(x, (4, 8)), const(6, 8))
    (name,) = name_blocks([_calls(relay.nn.softmax(relay.exp(dense)))])
    assert name == "dense_softmax_exp_x4"


def test_a_block_of_reshapes_is_named_by_them() -> None:
    assert name_blocks([_calls(relay.reshape(x, (32,)))]) == ["reshape"]


def test_equal_names_are_numbered() -> None:
    groups = [_calls(relay.exp(x)), _calls(relay.exp(x)), _calls(relay.tanh(x))]
    assert name_blocks(groups) == ["exp", "exp_1", "tanh"]


def test_names_are_identifiers() -> None:
    calls = _calls(relay.image.resize2d(var("i", 1, 1, 4, 4), (8, 8), roi=None))
    (name,) = name_blocks([calls])
    assert re.fullmatch(r"[A-Za-z_][0-9A-Za-z_]*", name)


def test_a_call_is_called_by_the_models_name_for_it() -> None:
    span = relay.Span(relay.SourceName("layer/exp"), 0, 0, 0, 0)
    first = relay.Call(relay.op.get("exp"), [x], None, None, span)
    second = relay.Call(relay.op.get("tanh"), [first], None, None, span)
    calls = _calls(relay.sin(second))
    assert list(labels(calls).values()) == ["layer/exp", "layer/exp#2", f"sin#{calls[2].number}"]


def test_a_result_that_is_read_twice_is_written_once() -> None:
    found = graph(relay.tanh(relay.exp(x)), relay.sin(relay.exp(x)))
    exp = next(node for node in found.calls() if node.op == "exp")
    block = describe_block(found, (exp,), "exp")
    assert (block.bytes_in, block.bytes_out, block.bytes_saved) == (128, 128, 0)
    assert block.mapping_type is MappingType.ONE_TO_ONE
    assert not block.is_reshape_only
