from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.fusion.candidate import SMALL_BYTES, Candidate
from tvm_fusionx.fusion.partition import Partition

LARGE = SMALL_BYTES
x = var("x", 4, 8)


def _candidate(expr: relay.Expr, cut: int) -> Candidate:
    """Return the candidate of the first `cut` calls and the rest."""
    partition = Partition(graph(expr))
    units = partition.units
    first, second = units[0], units[cut]
    for unit in units[1:cut]:
        first = partition.merge(first, unit)
    for unit in units[cut + 1 :]:
        second = partition.merge(second, unit)
    return Candidate(partition, first, second)


def _dense_softmax() -> Candidate:
    return _candidate(relay.exp(relay.nn.softmax(relay.nn.dense(relay.tanh(x), const(6, 8)))), 2)


def test_calls_are_in_order() -> None:
    assert [node.op for node in _dense_softmax().nodes] == ["tanh", "nn.dense", "nn.softmax", "exp"]


def test_many_to_many_calls_and_what_lies_around_them() -> None:
    candidate = _dense_softmax()
    dense, softmax = candidate.many_to_many
    assert [node.op for node in candidate.many_to_many] == ["nn.dense", "nn.softmax"]
    assert [node.op for node in candidate.below_heavy()] == ["nn.softmax", "exp"]
    assert {node.op for node in candidate.below([softmax])} == {"exp"}
    assert [node.op for node in candidate.above([dense])] == ["tanh"]
    assert not candidate.is_below_reduction(dense)
    assert candidate.is_below_reduction(candidate.nodes[-1])


def test_edges_are_those_between_the_two() -> None:
    assert [(a.op, b.op) for a, b in _dense_softmax().edges()] == [("nn.dense", "nn.softmax")]


@pytest.mark.parametrize(
    ("expr", "is_small"),
    [
        (relay.exp(relay.tanh(x)), True),
        (relay.exp(relay.tanh(var("large", LARGE))), False),
        # Small results of much arithmetic.
        (relay.exp(relay.nn.dense(var("long", 4, LARGE), const(64, LARGE))), False),
        # The same arithmetic: one reads each weight once, the other sixteen times.
        (relay.exp(relay.nn.dense(var("row", 1, 512), const(256, 512))), True),
        (relay.exp(relay.nn.dense(var("rows", 16, 128), const(64, 128))), False),
        (relay.exp(relay.nn.dense(var("tiny", 4, 8), const(8, 8))), True),
    ],
    ids=["small", "many bytes", "much arithmetic", "vector", "matrix", "tiny"],
)
def test_small_is_judged_by_bytes_and_arithmetic(expr: relay.Expr, is_small: bool) -> None:
    assert _candidate(expr, 1).is_small_chain is is_small


@pytest.mark.parametrize(("dtype", "is_small"), [("uint8", True), ("int32", False)])
def test_bytes_that_a_pool_widens_as_it_reads_count_as_bytes(dtype: str, is_small: bool) -> None:
    image = relay.var("image", shape=(1, 2, 64, LARGE // 64), dtype=dtype)
    less = relay.subtract(relay.cast(image, "int32"), relay.const(3, "int32"))
    pooled = relay.nn.global_avg_pool2d(relay.cast(less, "float32"))
    assert _candidate(relay.tanh(pooled), 3).is_small_chain is is_small


def test_what_others_read_is_not_widened_in_a_pool() -> None:
    image = relay.var("image", shape=(1, 2, 64, LARGE // 64), dtype="uint8")
    wide = relay.cast(image, "float32")
    both = relay.add(relay.nn.global_avg_pool2d(wide), wide)
    candidate = _candidate(both, 1)
    assert candidate.widened_in_pools == frozenset()
    assert not candidate.is_small_chain


def test_what_is_a_result_is_not_widened_in_a_pool() -> None:
    image = relay.var("image", shape=(1, 2, 64, LARGE // 64), dtype="uint8")
    candidate = _candidate(relay.cast(relay.cast(image, "int32"), "float32"), 1)
    assert candidate.widened_in_pools == frozenset()


def test_what_a_pool_and_the_caller_read_is_not_widened_in_a_pool() -> None:
    image = relay.var("image", shape=(1, 2, 64, LARGE // 64), dtype="uint8")
    wide = relay.cast(image, "float32")
    candidate = _candidate(relay.Tuple([relay.nn.global_avg_pool2d(wide), wide]), 1)
    assert candidate.widened_in_pools == frozenset()
    assert not candidate.is_small_chain


def _convolution() -> relay.Expr:
    return relay.nn.contrib_conv2d_nchwc(
        var("image", 1, 1, 5, 7, 8),
        const(2, 1, 1, 1, 8, 8),
        channels=16,
        kernel_size=(1, 1),
        data_layout="NCHW8c",
        kernel_layout="OIHW8i8o",
        out_layout="NCHW8c",
    )


def test_what_is_wanted_of_a_padded_convolution_is_its_first_channels() -> None:
    image = relay.layout_transform(_convolution(), "NCHW8c", "NCHW")
    cut = relay.strided_slice(image, [0], [13], axes=[1])
    candidate = _candidate(relay.exp(cut), 2)
    convolution, in_order, slice_, after = candidate.nodes
    assert candidate.computed_whole(convolution) == [convolution, in_order, slice_]
    assert candidate.product_before(slice_) is convolution
    assert candidate.product_before(after) is None
    for begin, end, axis in ((3, 16, 1), (0, 4, 2)):
        other = _candidate(relay.exp(relay.strided_slice(image, [begin], [end], axes=[axis])), 2)
        assert other.useful_result(other.nodes[0]) is other.nodes[0]


def test_what_is_wanted_of_a_padded_product_is_its_first_columns() -> None:
    product = relay.nn.dense(x, const(6, 8))
    cut = relay.strided_slice(product, [0, 0], [4, 5])
    candidate = _candidate(cut + const(5), 2)
    dense, slice_, _ = candidate.nodes
    assert candidate.useful_result(dense) is slice_
    both = _candidate(relay.strided_slice(product, [0, 1], [4, 6]) + const(5), 2)
    assert both.useful_result(both.nodes[0]) is both.nodes[0]


def test_calls_without_operands_are_small() -> None:
    zeros = relay.zeros((4, 8), "float32")
    pooled = relay.nn.dense(relay.add(zeros, x), const(6, 8))
    partition = Partition(graph(relay.nn.dense(pooled, const(3, 6))))
    units = partition.units
    assert units[0].nodes[0].op == "zeros"
    assert Candidate(partition, units[0], units[1]).widened_in_pools == frozenset()
