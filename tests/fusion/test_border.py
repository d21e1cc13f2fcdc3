from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg.to_relay import block_outputs
from tvm_fusionx.fusion.border import border_of
from tvm_fusionx.fusion.partition import Partition

x, y = var("x", 4, 8), var("y", 4, 8)


def test_arguments_are_distinct_tensors_and_results() -> None:
    found = graph((x + y) * x + relay.const(1.0) + const(8))
    border = border_of(found, found.calls(), frozenset(found.outputs))
    assert {value.shape for value in border.reads} == {(4, 8), (8,)}
    assert border.outputs == found.outputs
    assert border.arguments == 4


def test_a_returned_result_that_is_read_inside_is_an_output() -> None:
    inner = relay.exp(x)
    found = graph(inner, relay.tanh(inner))
    border = border_of(found, found.calls(), frozenset(found.outputs))
    assert [value.op for value in border.outputs] == ["exp", "tanh"]


def test_a_part_that_nobody_reads_is_no_output() -> None:
    first, _, last = relay.split(x, [2, 5], axis=1)
    found = graph(relay.tanh(first), relay.tanh(last))
    split = found.calls()[0]
    assert split.op == "split"
    border = border_of(found, [split], frozenset(found.outputs))
    assert [value.index for value in border.outputs] == [0, 2]


@pytest.mark.slow
@given(st.data())
def test_a_joined_border_is_that_of_all_its_calls(data: st.DataObject) -> None:
    values = [x, y]
    for _ in range(data.draw(st.integers(2, 12))):
        first, second = (data.draw(st.sampled_from(values)) for _ in range(2))
        values.append(relay.tanh(first) if data.draw(st.booleans()) else first + second)
    outputs = data.draw(st.lists(st.sampled_from(values[2:]), min_size=1, max_size=3))
    found = graph(*outputs, params=[x, y])
    partition = Partition(found)
    while True:
        pairs = [
            (unit, other)
            for unit in partition.units
            for other in unit.successors
            if partition.is_convex(unit, other)
        ]
        if not pairs:
            break
        merged = partition.merge(*data.draw(st.sampled_from(pairs)))
        border = partition.border(merged)
        assert border.reads == border_of(found, merged.nodes, frozenset(found.outputs)).reads
        assert set(border.outputs) == set(block_outputs(found, merged.nodes))
