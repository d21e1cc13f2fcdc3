from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tvm_fusionx.ecg import Attributes, Graph, TensorType, Value
from tvm_fusionx.ecg.graph import Grouping

SQUARE = TensorType((4, 4), "float32")


def _same_type(
    op: str, attrs: Attributes, operands: Sequence[TensorType], grouping: Grouping
) -> tuple[tuple[TensorType, ...], bool]:
    """Infer what an elementwise operator returns; the graph itself knows no operator."""
    return (operands[0],), False


@pytest.fixture
def graph() -> Graph:
    return Graph(_same_type)


@pytest.fixture
def x(graph: Graph) -> Value:
    return graph.input("x", SQUARE)


def _ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.calls()]


# ---- hash-consing -----------------------------------------------------------------------------


def test_equal_calls_are_one_node(graph: Graph, x: Value) -> None:
    assert graph.call("exp", [x]) is graph.call("exp", [x])
    assert graph.call("sum", [x], {"axis": 0}) is not graph.call("sum", [x], {"axis": 1})


def test_operand_order_and_grouping_tell_calls_apart(graph: Graph, x: Value) -> None:
    y = graph.input("y", SQUARE)
    assert graph.call("subtract", [x, y]) is not graph.call("subtract", [y, x])
    assert graph.call("concatenate", [x, y], grouping=(2,)) is not graph.call(
        "concatenate", [x, y], grouping=(None, None)
    )


def test_the_first_known_name_stays(graph: Graph, x: Value) -> None:
    graph.call("exp", [x])
    graph.call("exp", [x], name="first")
    assert graph.call("exp", [x], name="second").node.name == "first"


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (np.ones(3, "float32"), np.ones(3, "float32"), True),
        (np.ones((3, 4), "float32"), np.ones((4, 3), "float32").T, True),
        (np.ones(3, "float32"), np.ones((3, 1), "float32"), False),
        (np.zeros(2, "float32"), np.zeros(2, "int32"), False),
        (np.float32(1), np.ones(1, "float32"), False),
        (np.zeros((0, 2), "float32"), np.zeros((0, 2), "float32"), True),
        (np.float32(0.0), np.float32(-0.0), False),
    ],
)
def test_constants_are_equal_by_shape_type_and_bits(
    graph: Graph, first: np.ndarray, second: np.ndarray, is_same: bool
) -> None:
    assert (graph.constant(first) is graph.constant(second)) is is_same


def test_a_constant_takes_the_type_that_is_asked_for(graph: Graph) -> None:
    assert graph.constant(2.0, "float16").type == TensorType((), "float16")


# ---- replacing --------------------------------------------------------------------------------


def test_replace_reaches_users_and_outputs(graph: Graph, x: Value) -> None:
    old = graph.call("exp", [x])
    user = graph.call("tanh", [old])
    graph.outputs = (user, old)
    new = graph.call("sin", [x])
    graph.replace(old, new)
    assert user.node.operands == (new,)
    assert graph.outputs == (user, new)
    assert graph.users(new.node) == (user.node,)
    assert graph.users(old.node) == ()


def test_replace_merges_calls_that_become_equal_up_to_the_outputs(graph: Graph, x: Value) -> None:
    y = graph.input("y", SQUARE)
    towers = [graph.call("tanh", [graph.call("exp", [value])]) for value in (x, y)]
    graph.outputs = (graph.call("add", towers),)
    graph.replace(y, x)
    assert _ops(graph) == ["exp", "tanh", "add"]
    # The calls that were merged into others read nothing any more.
    assert len(graph.users(x.node)) == 1
    add = graph.outputs[0].node
    assert add.operands[0] is add.operands[1]


def test_replace_merges_calls_with_several_results(graph: Graph, x: Value) -> None:
    y = graph.input("y", SQUARE)
    halves = [
        graph.call_node("split", [value], outputs=(SQUARE, SQUARE), returns_tuple=True)
        for value in (x, y)
    ]
    graph.outputs = (graph.call("add", [halves[0][0], halves[1][1]]),)
    graph.replace(y, x)
    graph.prune()
    assert _ops(graph) == ["split", "add"]


def test_replacing_one_result_leaves_the_others(graph: Graph, x: Value) -> None:
    split = graph.call_node("split", [x], outputs=(SQUARE, SQUARE), returns_tuple=True)
    total = graph.call("add", [split[0], split[1]])
    graph.outputs = (total,)
    graph.replace(split[0], x)
    assert total.node.operands == (x, split[1])
    assert graph.users(split) == (total.node,)


def test_a_changed_call_is_found_by_its_new_operands_only(graph: Graph, x: Value) -> None:
    y = graph.input("y", SQUARE)
    call = graph.call("exp", [x])
    graph.outputs = (call,)
    graph.replace(x, y)
    assert graph.call("exp", [y]) is call
    assert graph.call("exp", [x]) is not call


def test_replacing_a_value_by_itself_changes_nothing(graph: Graph, x: Value) -> None:
    graph.outputs = (graph.call("exp", [x]),)
    graph.replace(x, x)
    assert _ops(graph) == ["exp"]


# ---- dropping ---------------------------------------------------------------------------------


def test_prune_drops_what_no_output_needs_and_keeps_inputs(graph: Graph, x: Value) -> None:
    unread = graph.input("unread", SQUARE)
    dead = graph.call("exp", [x])
    live = graph.call("tanh", [x])
    graph.outputs = (live,)
    graph.prune()
    assert not graph.contains(dead.node)
    assert graph.contains(unread.node)
    assert graph.users(x.node) == (live.node,)
    assert graph.call("exp", [x]) is not dead


def test_an_unread_call_is_dropped_with_what_only_it_needs(graph: Graph, x: Value) -> None:
    shared = graph.call("exp", [x])
    inner = graph.call("tanh", [shared])
    top = graph.call("sin", [inner])
    other = graph.call("cos", [shared])
    graph.outputs = (other,)
    graph.drop_unread(top.node)
    assert [graph.contains(value.node) for value in (top, inner, shared, other)] == [
        False,
        False,
        True,
        True,
    ]
    assert graph.users(shared.node) == (other.node,)


def test_a_call_that_is_read_or_returned_is_not_dropped(graph: Graph, x: Value) -> None:
    inner = graph.call("exp", [x])
    top = graph.call("tanh", [inner])
    graph.outputs = (top,)
    for value in (inner, top, x):
        graph.drop_unread(value.node)
        assert graph.contains(value.node)


def test_rollback_takes_back_what_was_added(graph: Graph, x: Value) -> None:
    kept = graph.call("exp", [x])
    mark = graph.mark()
    taken = graph.call("tanh", [kept])
    constant = graph.constant(np.ones(2, "float32"))
    graph.rollback(mark)
    assert graph.contains(kept.node)
    assert not graph.contains(taken.node)
    assert not graph.contains(constant.node)
    assert graph.users(kept.node) == ()
    assert graph.call("tanh", [kept]) is not taken


def test_reachable_since_names_new_calls_that_are_needed(graph: Graph, x: Value) -> None:
    old = graph.call("exp", [x])
    mark = graph.mark()
    middle = graph.call("tanh", [old])
    top = graph.call("sin", [middle])
    graph.call("cos", [old])
    assert graph.reachable_since(mark, [top]) == {middle.node, top.node}


# ---- looking ----------------------------------------------------------------------------------


def test_topological_order_has_operands_first_and_each_node_once(graph: Graph, x: Value) -> None:
    left, right = graph.call("exp", [x]), graph.call("tanh", [x])
    graph.outputs = (graph.call("add", [left, right]),)
    order = graph.topological()
    assert [node.op for node in order] == ["input", "exp", "tanh", "add"]


def test_single_users(graph: Graph, x: Value) -> None:
    once, twice, returned = (graph.call(op, [x]) for op in ("exp", "tanh", "sin"))
    users = [graph.call("abs", [once]), graph.call("abs", [twice]), graph.call("cos", [twice])]
    graph.outputs = (*users, graph.call("abs", [returned]), returned)
    assert graph.has_single_user(once)
    assert not graph.has_single_user(twice)
    assert not graph.has_single_user(returned)
    assert graph.is_output(returned.node)


def test_constants_that_look_alike_are_told_apart(graph: Graph) -> None:
    one = np.zeros(100_000, "float32")
    other = one.copy()
    other[-1] = 1
    assert graph.constant(one) is graph.constant(one.copy())
    assert graph.constant(other) is not graph.constant(one)
    assert graph.constant(other.copy()) is graph.constant(other)
    assert graph.constant(np.array([0.0])) is not graph.constant(np.array([-0.0]))
    assert graph.constant(np.array([np.nan])) is graph.constant(np.array([np.nan]))
