from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg import Graph
from tvm_fusionx.fusion.border import border_of
from tvm_fusionx.fusion.cost_model import FREE, BlockCost, block_cost, evaluations
from tvm_fusionx.fusion.device_costs import DeviceCosts

FLOAT_BYTES = 4
COSTS = DeviceCosts(
    launch_us=1.0,
    memory_bytes_per_us=10.0,
    cache_bytes_per_us=100.0,
    cache_bytes=1000,
    products_per_us=1000.0,
    elements_per_us=100.0,
    transcendentals_per_us=10.0,
    moved_per_us=20.0,
)
x = var("x", 8, 16)
large = var("large", 64, 64)


def _cost(found: Graph) -> BlockCost:
    calls = found.calls()
    return block_cost(calls, border_of(found, calls, frozenset(found.outputs)), COSTS)


def _times(expr: relay.Expr) -> list[tuple[str, float]]:
    calls = graph(expr).calls()
    return [(node.op, times) for node, times in evaluations(calls).items()]


def test_traffic_of_small_tensors_is_that_of_the_cache() -> None:
    elements = 8 * 16
    cost = _cost(graph(relay.negative(x)))
    assert cost.launch_us == COSTS.launch_us
    assert cost.memory_us == pytest.approx(2 * elements * FLOAT_BYTES / COSTS.cache_bytes_per_us)
    assert cost.compute_us == pytest.approx(elements / COSTS.elements_per_us)
    assert cost.recomputed_us == 0
    assert cost.microseconds == pytest.approx(1.0 + max(cost.memory_us, cost.compute_us))


def test_large_tensors_come_from_memory() -> None:
    cost = _cost(graph(relay.negative(large)))
    assert cost.memory_us == pytest.approx(2 * 64 * 64 * FLOAT_BYTES / COSTS.memory_bytes_per_us)


def test_a_gather_reads_what_it_takes_of_its_table() -> None:
    rows = _cost(graph(relay.take(large, const(4, dtype="int32"), axis=0)))
    everything = _cost(graph(relay.negative(large)))
    assert rows.memory_us < everything.memory_us / 4


def test_a_function_a_product_and_a_movement_have_rates_of_their_own() -> None:
    dear = _cost(graph(relay.exp(x)))
    assert dear.compute_us == pytest.approx(128 / COSTS.elements_per_us + 128 / 10.0)
    product = _cost(graph(relay.nn.dense(x, const(4, 16))))
    assert product.compute_us == pytest.approx(8 * 16 * 4 / COSTS.products_per_us)
    assert _cost(graph(relay.transpose(x))).compute_us == pytest.approx(128 / COSTS.moved_per_us)


def test_a_reshape_alone_is_free() -> None:
    assert _cost(graph(relay.reshape(x, (128,)))) == FREE


def test_a_broadcast_value_is_computed_for_every_reader() -> None:
    row = relay.negative(var("row", 1, 16))
    assert _times(row + x) == [("negative", 8.0), ("add", 1.0)]
    assert _cost(graph(row + x)).recomputed_us == pytest.approx(7 * 16 / COSTS.elements_per_us)


def test_what_is_read_again_is_read_by_all_that_lies_before_it() -> None:
    row = relay.negative(relay.abs(var("row", 1, 16)))
    assert _times(row + x) == [("abs", 8.0), ("negative", 8.0), ("add", 1.0)]


def test_two_readers_in_one_iteration_share() -> None:
    inner = relay.abs(x)
    assert ("abs", 1.0) in _times(relay.negative(inner) + inner)


def test_a_result_of_a_reduction_and_what_follows_in_its_rows_is_kept() -> None:
    scale = relay.sqrt(relay.sum(x, axis=-1, keepdims=True))
    assert _times(x * scale) == [("sum", 1.0), ("sqrt", 1.0), ("multiply", 1.0)]


def test_a_union_reads_each_part_once() -> None:
    parts = [relay.abs(x), relay.negative(x)]
    times = _times(relay.concatenate(parts, axis=0))
    assert sorted(times) == [("abs", 1.0), ("concatenate", 1.0), ("negative", 1.0)]
