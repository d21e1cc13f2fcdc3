"""What a block consists of."""

from __future__ import annotations

from tvm import relay

from tests.relay_modules import var
from tests.schedules.blocked_blocks import describe
from tests.schedules.matrix_blocks import layer_norm, packed_dense
from tvm_fusionx.tir.block import collect_blocks, describe_stage


def test_a_dot_product_is_the_anchor() -> None:
    info = describe(relay.nn.relu(packed_dense(8, 32, 6)))
    assert info.anchor is not None
    assert info.anchor.spatial == (8, 32)
    assert info.anchor.reduced == (6,)
    assert info.anchor.points == 8 * 32 * 6


def test_a_square_is_no_dot_product() -> None:
    info = describe(layer_norm(var("x", 4, 16), 16))
    assert info.anchor is None
    assert len(info.reductions) == 2


def test_two_parts_of_one_tensor_make_a_dot_product() -> None:
    x = var("x", 8, 16)
    halves = relay.split(x, 2, axis=1)
    assert describe(relay.nn.dense(halves[0], halves[1])).anchor is not None


def test_stages_know_their_readers() -> None:
    info = describe(relay.nn.softmax(var("x", 4, 16)))
    (output,) = info.outputs
    assert info.consumers[output] == ()
    assert info.upstream(output) == set(info.stages) - {output}
    first = next(iter(info.stages))
    assert output in info.downstream(first)


def test_transcendental_functions_are_counted() -> None:
    info = describe(relay.exp(relay.sqrt(var("x", 4))))
    assert sum(stage.transcendentals for stage in info.stages.values()) == 1


def test_a_block_met_again_is_not_visited_again() -> None:
    (block,) = collect_blocks(describe(relay.exp(var("x", 4, 8))).func)
    assert describe_stage(block) is describe_stage(block)
    (other,) = collect_blocks(describe(relay.exp(var("x", 4, 8))).func)
    assert describe_stage(other) is not describe_stage(block)
