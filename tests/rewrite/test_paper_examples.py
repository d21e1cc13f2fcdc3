"""The rules and the figure that DNNFusion prints, as Relay and as ONNX graphs.

Table 4's rules and Figure 2's three examples, section 4.2. D1 is printed with a misprint, A2 needs
an operand that is never negative, and C2 holds for left shifts only: all as proved here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import relay

import tvm_fusionx as fx
from tests.relay_modules import REASSOCIATING, assert_close, const, graph, var
from tests.rewrite.rule_examples import draw, evaluate
from tvm_fusionx.ecg import Graph, from_relay
from tvm_fusionx.rewrite import rewrite
from tvm_fusionx.rewrite.cost import cost_of

a, b, c = (var(name, 4, 8) for name in "abc")
n = var("n", 4, 8, dtype="int32")
one = relay.const(1.0)
convolved = relay.nn.conv2d(var("x", 1, 2, 4, 4), const(3, 2, 1, 1))


def _rows(data: relay.Expr) -> relay.Expr:
    return relay.sum(data, axis=1, keepdims=True)


# Table 4: before, and the calls that are left.
PUBLISHED: dict[str, tuple[Callable[[], relay.Expr], list[str]]] = {
    "A1": (
        lambda: relay.divide(one, a) * relay.divide(one, a * b),
        ["divide", "multiply", "multiply"],
    ),
    "A2": (
        lambda: (a * relay.sqrt(relay.abs(b))) * (relay.sqrt(relay.abs(b)) * c),
        ["abs", "multiply", "multiply"],
    ),
    "A3": (lambda: relay.abs(a) * b * relay.abs(c), ["abs", "multiply", "multiply"]),
    "A4": (
        lambda: (a * _rows(b)) * (_rows(b) * c),
        ["multiply", "multiply", "multiply", "sum"],
    ),
    "D1": (lambda: a * c + a * b, ["add", "multiply"]),
    "D2": (lambda: a + a * relay.const(0.5), ["multiply"]),
    "D3": (lambda: (a + b) * (a + b) - (a + b) * c, ["add", "multiply", "subtract"]),
    "C1": (lambda: relay.exp(a * b) + relay.tanh(b * a), ["add", "exp", "multiply", "tanh"]),
    "C2": (lambda: relay.sum(relay.left_shift(n, relay.const(2)), axis=1), ["left_shift", "sum"]),
    "C3": (lambda: relay.prod(relay.exp(a), axis=1), ["exp", "sum"]),
}


def _rewritten(before: Graph, after: Graph) -> list[str]:
    inputs = draw(before)
    assert rewrite(after)
    assert_close(evaluate(after, inputs), evaluate(before, inputs), REASSOCIATING)
    assert cost_of(after.calls()) < cost_of(before.calls())
    return sorted(node.op for node in after.calls())


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_rule(name: str) -> None:
    make, left = PUBLISHED[name]
    assert _rewritten(graph(make()), graph(make())) == left


def test_the_small_factor_of_a4_is_squared_before_it_is_broadcast() -> None:
    found = graph((a * _rows(b)) * (_rows(b) * c))
    rewrite(found)
    shapes = Counter(node.outputs[0].shape for node in found.calls() if node.op == "multiply")
    assert shapes == {(4, 1): 1, (4, 8): 2}


def test_what_may_be_negative_keeps_its_roots() -> None:
    found = graph((a * relay.sqrt(b)) * (relay.sqrt(b) * c))
    rewrite(found)
    assert "sqrt" in [node.op for node in found.calls()]


def test_a_right_shift_stays_before_the_sum() -> None:
    found = graph(relay.sum(relay.right_shift(n, relay.const(2)), axis=1))
    assert rewrite(found) == []


def test_the_rule_that_lp_fusion_prints() -> None:
    """(E + F)*G + (E + F)*H -> (E + F)*(G + H), E a product of matrices: one layer of four."""

    def make() -> Graph:
        shifted = relay.nn.dense(a, const(8, 8)) + b
        return graph(shifted * c + shifted * var("d", 4, 8))

    assert _rewritten(make(), make()) == ["add", "add", "multiply", "nn.dense"]


# ---- Figure 2 -----------------------------------------------------------------------------------

FIGURE: dict[str, tuple[Callable[[], relay.Expr], list[str]]] = {
    # Two reciprocals and two products over a convolution's result; the weights' fold.
    "a": (
        lambda: relay.divide(one, convolved) * relay.divide(one, convolved * const(3, 1, 1)),
        ["divide", "multiply", "nn.conv2d"],
    ),
    # A product of matrices times C plus the same times D: C + D folds.
    "b": (
        lambda: (
            relay.nn.dense(a, const(6, 8)) * const(4, 6, seed=1)
            + relay.nn.dense(a, const(6, 8)) * const(4, 6, seed=2)
        ),
        ["multiply", "nn.dense"],
    ),
    "c": (lambda: relay.sum(relay.left_shift(n, relay.const(3)), axis=1), ["left_shift", "sum"]),
}


@pytest.mark.parametrize("name", FIGURE)
def test_the_figure_in_relay(name: str) -> None:
    make, left = FIGURE[name]
    expr = make()
    assert _rewritten(graph(expr), graph(expr)) == left


def _constant(name: str, *shape: int, seed: int = 0) -> onnx.TensorProto:
    values = np.random.default_rng(seed).uniform(0.5, 2, shape).astype("float32")
    return numpy_helper.from_array(values, name)


def _model(
    nodes: list[onnx.NodeProto],
    shape: tuple[int, ...],
    constants: list[onnx.TensorProto],
    dtype: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    made = helper.make_graph(
        nodes,
        "figure",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", dtype, None)],
        constants,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)])


def _node(op: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], name=f"{op}_{output}", **attributes)


ONNX_FIGURE: dict[str, tuple[Callable[[], onnx.ModelProto], list[str]]] = {
    "a": (
        lambda: _model(
            [
                _node("Conv", "x w", "t"),
                _node("Reciprocal", "t", "r"),
                _node("Mul", "t b", "tb"),
                _node("Reciprocal", "tb", "s"),
                _node("Mul", "r s", "y"),
            ],
            (1, 2, 4, 4),
            [_constant("w", 3, 2, 1, 1), _constant("b", 3, 1, 1)],
        ),
        ["divide", "multiply", "nn.conv2d"],
    ),
    "b": (
        lambda: _model(
            [
                _node("Gemm", "x w", "t", transB=1),
                _node("Mul", "t c", "u"),
                _node("Mul", "t d", "v"),
                _node("Add", "u v", "y"),
            ],
            (4, 8),
            [_constant("w", 6, 8), _constant("c", 4, 6, seed=1), _constant("d", 4, 6, seed=2)],
        ),
        ["multiply", "nn.dense"],
    ),
    "c": (
        lambda: _model(
            [
                _node("BitShift", "x k", "t", direction="LEFT"),
                _node("ReduceSum", "t i", "y", keepdims=0),
            ],
            (4, 8),
            [
                numpy_helper.from_array(np.array(3, "uint32"), "k"),
                numpy_helper.from_array(np.array([1], "int64"), "i"),
            ],
            TensorProto.UINT32,
        ),
        ["left_shift", "sum"],
    ),
}


@pytest.mark.parametrize("name", ONNX_FIGURE)
def test_the_figure_in_onnx(name: str) -> None:
    make, left = ONNX_FIGURE[name]
    mod, _ = fx.from_onnx(make())
    mod = relay.transform.InferType()(mod)
    before, after = from_relay(mod["main"]), from_relay(mod["main"])
    assert _rewritten(before, after) == left
    names = {name for item in rewrite(from_relay(mod["main"])) for name in item.nodes}
    assert names
