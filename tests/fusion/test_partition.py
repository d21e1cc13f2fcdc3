from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import relay

from tests.relay_modules import graph, var
from tvm_fusionx.ecg import Graph, TensorType
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.ecg.relay_types import infer_types
from tvm_fusionx.fusion.partition import Partition, Unit

x = var("x", 4, 4)


def _diamond() -> Partition:
    """Return exp -> (tanh, sin) -> add."""
    top = relay.exp(x)
    return Partition(graph(relay.tanh(top) + relay.sin(top)))


def _unit(partition: Partition, op: str) -> Unit:
    return next(unit for unit in partition.units if unit.nodes[-1].op == op)


def _operators(partition: Partition) -> list[str]:
    return ["+".join(node.op for node in unit.nodes) for unit in partition.units]


def _check(partition: Partition) -> None:
    """Check that units are in topological order, linked both ways, and hold every call once."""
    place = {unit: number for number, unit in enumerate(partition.units)}
    for unit, number in place.items():
        expected = {
            partition.unit_of[value.node]
            for node in unit.nodes
            for value in node.operands
            if value.node in partition.index
        } - {unit}
        assert set(unit.predecessors) == expected
        for other in expected:
            assert place[other] < number
            assert other.position < unit.position
            assert unit in other.successors
    held = [node for unit in partition.units for node in unit.nodes]
    assert sorted(held, key=partition.index.__getitem__) == partition.calls


def test_every_call_is_its_own_unit_at_first() -> None:
    partition = _diamond()
    assert _operators(partition) == ["exp", "tanh", "sin", "add"]
    _check(partition)


def test_neighbours_of_a_call() -> None:
    partition = _diamond()
    exp, tanh, sin, add = partition.calls
    assert partition.users(exp) == [tanh, sin]
    assert partition.producers(add) == [tanh, sin]
    assert partition.producers(exp) == []


def test_a_side_of_a_diamond_is_convex_and_its_two_ends_are_not() -> None:
    partition = _diamond()
    assert partition.is_convex(_unit(partition, "exp"), _unit(partition, "tanh"))
    first = partition.merge(_unit(partition, "exp"), _unit(partition, "tanh"))
    assert not partition.is_convex(first, _unit(partition, "add"))
    _check(partition)


def test_a_diamond_merges_through_both_sides() -> None:
    partition = _diamond()
    unit = partition.merge(_unit(partition, "exp"), _unit(partition, "tanh"))
    unit = partition.merge(unit, _unit(partition, "sin"))
    unit = partition.merge(unit, _unit(partition, "add"))
    assert [node.op for node in unit.nodes] == ["exp", "tanh", "sin", "add"]
    _check(partition)


def test_a_residual_is_not_convex_without_its_long_side() -> None:
    top = relay.exp(x)
    partition = Partition(graph(relay.sin(relay.tanh(top)) + top))
    assert not partition.is_convex(_unit(partition, "exp"), _unit(partition, "add"))
    inner = partition.merge(_unit(partition, "tanh"), _unit(partition, "sin"))
    outer = partition.merge(_unit(partition, "exp"), inner)
    assert partition.is_convex(outer, _unit(partition, "add"))
    _check(partition)


def test_merging_what_is_not_convex_is_a_programming_error() -> None:
    top = relay.exp(x)
    partition = Partition(graph(relay.tanh(top) + top))
    with pytest.raises(AssertionError, match="cycle"):
        partition.merge(_unit(partition, "exp"), _unit(partition, "add"))


def test_splitting_a_unit_gives_its_parts_their_places() -> None:
    partition = _diamond()
    unit = partition.merge(_unit(partition, "exp"), _unit(partition, "tanh"))
    exp, tanh = unit.nodes
    assert [part.nodes for part in partition.split(unit, [(exp,), (tanh,)])] == [(exp,), (tanh,)]
    _check(partition)
    partition.merge(partition.unit_of[exp], partition.unit_of[tanh])
    _check(partition)


@st.composite
def random_graphs(draw: st.DrawFn) -> Graph:
    """Draw a directed acyclic graph of binary calls."""
    found = Graph(infer_types)
    type_ = TensorType((2,), "float32")
    values = [found.input("x", type_)]
    for _ in range(draw(st.integers(2, 14))):
        pick = st.sampled_from(values)
        node = found.call_node("subtract", [draw(pick), draw(pick)], outputs=(type_,))
        if node[0] not in values:
            values.append(node[0])
    found.outputs = tuple(values)
    return found


@pytest.mark.slow
@given(random_graphs(), st.randoms(use_true_random=False))
def test_order_holds_through_any_merges(found: Graph, random: object) -> None:
    partition = Partition(found)
    for _ in range(10):
        pairs = [(unit, other) for unit in partition.units for other in unit.successors]
        convex = [pair for pair in pairs if partition.is_convex(*pair)]
        if not convex:
            break
        for pair in pairs:
            assert (pair in convex) is not _has_another_path(partition, *pair)
        partition.merge(*random.choice(convex))  # type: ignore[attr-defined]
        _check(partition)


def _has_another_path(partition: Partition, producer: Unit, consumer: Unit) -> bool:
    """Search the calls themselves for a path between two units through a third."""
    pending: list[Node] = [
        user
        for node in producer.nodes
        for user in partition.users(node)
        if partition.unit_of[user] not in (producer, consumer)
    ]
    seen: set[Unit] = set()
    while pending:
        unit = partition.unit_of[pending.pop()]
        if unit is consumer:
            return True
        if unit not in seen:
            seen.add(unit)
            pending.extend(user for node in unit.nodes for user in partition.users(node))
    return False
