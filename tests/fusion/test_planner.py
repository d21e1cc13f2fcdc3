from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tvm import relay

from tests.fusion.planned import blocks, decisions, planned, reasons
from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg import Graph
from tvm_fusionx.fusion import Plan, PlannerOptions, Reason, plan

x = var("x", 64, 512)
weights = const(512, 512)
image, kernel = var("image", 1, 16, 32, 32), const(16, 16, 3, 3)


def _softmax(value: relay.Expr) -> relay.Expr:
    raised = relay.exp(value - relay.max(value, axis=-1, keepdims=True))
    return raised / relay.sum(raised, axis=-1, keepdims=True)


def _layer_norm(value: relay.Expr) -> relay.Expr:
    centred = value - relay.mean(value, axis=-1, keepdims=True)
    variance = relay.mean(centred * centred, axis=-1, keepdims=True)
    return centred / relay.sqrt(variance + relay.const(1e-5)) * const(512) + const(512)


def _gelu(value: relay.Expr) -> relay.Expr:
    return value * relay.const(0.5) * (relay.erf(value * relay.const(0.707)) + relay.const(1.0))


# ---- blocks that must come out ----------------------------------------------------------------


def test_a_softmax_is_one_block() -> None:
    assert blocks(_softmax(x)) == [("max", "subtract", "exp", "sum", "divide")]


def test_a_layer_norm_is_one_block() -> None:
    assert len(blocks(_layer_norm(x))) == 1


def test_a_product_with_bias_residual_and_layer_norm_is_one_block() -> None:
    block, *others = blocks(_layer_norm(relay.nn.dense(x, weights) + const(512) + x))
    assert block[0] == "nn.dense"
    assert others == []


def test_a_gelu_is_in_the_block_of_its_product() -> None:
    (block,) = blocks(_gelu(relay.nn.dense(x, weights) + const(512)))
    assert block[0] == "nn.dense"
    assert "erf" in block


def test_a_convolution_takes_norm_residual_and_activation() -> None:
    scaled = relay.nn.conv2d(image, kernel, padding=(1, 1)) * const(16, 1, 1) + const(16, 1, 1)
    (block,) = blocks(relay.nn.relu(scaled + image))
    assert block == ("nn.conv2d", "multiply", "add", "add", "nn.relu")


def test_attention_is_scores_with_softmax_then_values() -> None:
    q, k, v = (var(name, 4, 64, 64) for name in "qkv")
    scores = _softmax(relay.nn.batch_matmul(q, k) * relay.const(0.125))
    first, second = blocks(relay.nn.batch_matmul(scores, v, transpose_b=False))
    assert first[0] == "nn.batch_matmul"
    assert "sum" in first
    assert second == ("nn.batch_matmul",)


def test_a_residual_is_fused_through_both_ways() -> None:
    assert len(blocks(relay.nn.relu(x) + x)) == 1


def test_small_stages_follow_each_other_in_one_block() -> None:
    squeezed = relay.nn.global_avg_pool2d(var("small", 1, 8, 8, 8))
    first = relay.nn.relu(relay.nn.conv2d(squeezed, const(4, 8, 1, 1)))
    assert len(blocks(relay.sigmoid(relay.nn.conv2d(first, const(8, 4, 1, 1))))) == 1


def test_split_heads_join_the_next_product() -> None:
    heads = relay.transpose(relay.reshape(x, (4, 16, 8, 64)), [0, 2, 1, 3])
    reshape, product = blocks(relay.nn.dense(relay.reshape(heads, (512, 64)), const(64, 64)))
    assert reshape == ("reshape",)
    assert product == ("transpose", "reshape", "nn.dense")


def test_heads_beside_each_other_are_stored_so_by_the_product_that_makes_them() -> None:
    # Large scores: what follows the product with weights is seeded, and grows backward, first.
    batched = relay.nn.batch_matmul(var("q", 32, 128, 128), var("k", 32, 64, 128))
    heads = relay.transpose(relay.reshape(batched, (1, 32, 128, 64)), [0, 2, 1, 3])
    residual = relay.nn.dense(relay.reshape(heads, (128, 2048)), const(64, 2048)) + var(
        "y", 128, 64
    )
    first, reshape, second = blocks(relay.nn.relu(residual))
    assert first == ("nn.batch_matmul", "reshape", "transpose")
    assert reshape == ("reshape",)
    assert second == ("nn.dense", "add", "nn.relu")


def test_a_chain_without_a_one_to_one_seed_is_grown_by_a_later_phase() -> None:
    product = relay.reshape(relay.nn.dense(x, weights), (64, 8, 64))
    assert blocks(relay.transpose(product, [1, 0, 2])) == [("nn.dense", "reshape", "transpose")]


def test_reshapes_at_the_borders_are_blocks_of_their_own() -> None:
    inner = relay.exp(relay.reshape(x, (512, 64)))
    plan_ = planned(relay.reshape(inner, (64 * 512,)))
    assert [block.is_reshape_only for block in plan_.blocks] == [True, False, True]
    assert plan_.kernels == 1
    assert reasons(plan_) == {Reason.RESHAPE_IS_FREE}


def test_a_reshape_of_a_constant_stays_inside() -> None:
    assert blocks(x + relay.reshape(const(512), (1, 512))) == [("reshape", "add")]


def test_two_reshapes_of_one_tensor_are_two_blocks() -> None:
    first, second = relay.reshape(x, (512, 64)), relay.reshape(x, (64 * 512,))
    assert blocks(first, second) == [("reshape",), ("reshape",)]


def test_a_reshape_of_a_returned_reshape_is_another_block() -> None:
    first = relay.reshape(x, (512, 64))
    second = relay.reshape(first, (64 * 512,))
    assert blocks(first, second) == [("reshape",), ("reshape",)]
    assert blocks(first, relay.tanh(second)) == [("reshape",), ("reshape",), ("tanh",)]
    assert blocks(second) == [("reshape", "reshape")]


def test_without_fusion_every_call_is_a_block() -> None:
    plan_ = planned(_layer_norm(x), options=PlannerOptions(fuse=False))
    assert all(len(block.nodes) == 1 for block in plan_.blocks)
    assert reasons(plan_) == {Reason.DENIED}


# ---- what holds for every plan ----------------------------------------------------------------


def _check(found: Graph, made: Plan) -> None:
    """Check cover, order, edges and names of a plan."""
    block_of = {node: block.name for block in made.blocks for node in block.nodes}
    assert Counter(node for block in made.blocks for node in block.nodes) == Counter(found.calls())
    assert len({block.name for block in made.blocks}) == len(made.blocks)
    # The contracted graph is acyclic: no block reads a block that comes after it.
    place = {block.name: number for number, block in enumerate(made.blocks)}
    for block in made.blocks:
        for node in block.nodes:
            for value in node.operands:
                if value.node in block_of:
                    assert place[block_of[value.node]] <= place[block.name]
    expected = sum(value.node in block_of for node in found.calls() for value in set(node.operands))
    assert len(made.edges) == expected
    for edge in made.edges:
        assert edge.fused is (edge.producer_block == edge.consumer_block)
        assert edge.fused is (edge.reason is None)
        assert edge.bytes > 0


def _random_graph(draw: st.DrawFn, large: bool) -> Graph:
    rows, columns = (64, 512) if large else (4, 8)
    a, b = var("a", rows, columns), var("b", rows, columns)
    values: list[relay.Expr] = [a, b]
    pick = st.deferred(lambda: st.sampled_from(values))
    for _ in range(draw(st.integers(1, 16))):
        kind = draw(st.sampled_from(["one", "two", "softmax", "sum", "dense", "move", "pieces"]))
        value = draw(pick)
        if kind == "one":
            values.append(draw(st.sampled_from([relay.exp, relay.nn.relu, relay.tanh]))(value))
        elif kind == "two":
            values.append(value + draw(pick))
        elif kind == "softmax":
            values.append(relay.nn.softmax(value, axis=draw(st.sampled_from([0, 1]))))
        elif kind == "sum":
            axis = draw(st.sampled_from([0, 1]))
            values.append(draw(pick) * relay.sum(value, axis=axis, keepdims=True))
        elif kind == "dense":
            values.append(relay.nn.dense(value, const(columns, columns)))
        elif kind == "move":
            turned = relay.transpose(relay.reshape(value, (columns, rows)))
            values.append(relay.reshape(turned, (rows, columns)))
        else:
            parts = relay.split(value, 2, axis=1)
            values.append(relay.concatenate([parts[1], parts[0]], axis=1))
    outputs = draw(st.lists(st.sampled_from(values[2:]), min_size=1, max_size=3))
    return graph(*outputs, params=[a, b])


@given(st.data(), st.booleans(), st.booleans())
def test_plans_cover_every_call_once_in_order(data: st.DataObject, large: bool, fuse: bool) -> None:
    found = data.draw(st.composite(_random_graph)(large))
    before = [repr(node) for node in found.topological()]
    options = PlannerOptions(fuse=fuse)
    made = plan(found, options)
    _check(found, made)
    assert [repr(node) for node in found.topological()] == before
    assert plan(found, options) == made


def test_the_same_function_gives_the_same_plan() -> None:
    def summary() -> list[tuple[str, tuple[str, ...]]]:
        expr = _layer_norm(_gelu(relay.nn.dense(x, weights)) + _softmax(x))
        return [(block.name, block.ops) for block in planned(expr).blocks]

    assert summary() == summary()


def test_an_edge_is_named_by_the_models_nodes() -> None:
    span = relay.Span(relay.SourceName("layer/exp"), 0, 0, 0, 0)
    named = relay.Call(relay.op.get("exp"), [x], None, None, span)
    (edge,) = planned(relay.tanh(named)).edges
    assert edge.producer == "layer/exp"
    assert edge.bytes == 64 * 512 * 4


def test_the_decision_is_about_the_blocks_as_they_are() -> None:
    product = relay.nn.dense(x, weights)
    plan_ = planned(relay.nn.dense(relay.nn.relu(product), weights))
    edges = decisions(plan_)
    assert edges["nn.dense", "nn.relu"].fused
    assert edges["nn.relu", "nn.dense"].reason is Reason.SECOND_CONTRACTION


def test_an_empty_function_has_an_empty_plan() -> None:
    made = planned(x)
    assert made == Plan((), (), outputs=made.outputs)
