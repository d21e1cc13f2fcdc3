from __future__ import annotations

from tvm import relay

from tests.fusion.planned import planned
from tests.relay_modules import const, var
from tvm_fusionx.operators import MappingType

x = var("x", 64, 512)


def _named(op: str, operand: relay.Expr, name: str) -> relay.Expr:
    span = relay.Span(relay.SourceName(name), 0, 0, 0, 0)
    return relay.Call(relay.op.get(op), [operand], None, None, span)


def test_a_block_counts_what_passes_its_border() -> None:
    (block,) = planned(relay.tanh(x + const(512)) * x).blocks
    matrix = 64 * 512 * 4
    assert block.bytes_in == matrix + 512 * 4
    assert block.bytes_out == matrix
    assert block.bytes_saved == 2 * matrix
    assert block.flops == 3 * 64 * 512
    assert block.mapping_type is MappingType.ONE_TO_ONE


def test_a_block_names_its_operators_and_the_models_nodes_once() -> None:
    expr = _named("tanh", _named("exp", _named("sin", x, "a"), "b"), "a")
    (block,) = planned(expr).blocks
    assert block.ops == ("sin", "exp", "tanh")
    assert block.node_names == ("a", "b")


def test_reshapes_are_no_kernels_and_pass_no_bytes() -> None:
    plan = planned(relay.reshape(relay.exp(x), (64 * 512,)))
    assert [block.is_reshape_only for block in plan.blocks] == [False, True]
    assert plan.kernels == 1
    assert plan.intermediate_bytes == 64 * 512 * 4
