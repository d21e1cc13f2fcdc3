from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx_nodes import Case, check, floats
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx

onnxruntime = pytest.importorskip("onnxruntime")

STEPS, BATCH, FEATURES, HIDDEN = 2, 2, 3, 5
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
OPSET = 14


def operands(op_type: str, directions: int) -> list[Any]:
    """X, W, R, B, no sequence_lens, initial_h (and initial_c and peepholes of LSTM)."""
    rows = GATES[op_type] * HIDDEN
    arrays = [
        floats(STEPS, BATCH, FEATURES, seed=1),
        floats(directions, rows, FEATURES, seed=2),
        floats(directions, rows, HIDDEN, seed=3),
        floats(directions, 2 * rows, seed=4),
        None,
        floats(directions, BATCH, HIDDEN, seed=5),
    ]
    if op_type == "LSTM":
        arrays += [
            floats(directions, BATCH, HIDDEN, seed=6),
            floats(directions, 3 * HIDDEN, seed=7),
        ]
    return arrays


def outputs_of(op_type: str) -> int:
    return 3 if op_type == "LSTM" else 2


def model_of(op_type: str, inputs: list[Any], **attributes: Any) -> onnx.ModelProto:
    names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    outputs = [f"y{i}" for i in range(outputs_of(op_type))]
    node = helper.make_node(op_type, names, outputs, **{"hidden_size": HIDDEN, **attributes})
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in zip(names, inputs, strict=True)
        if name
    ]
    graph = helper.make_graph(
        [node], "layer", infos, [helper.make_empty_tensor_value_info(name) for name in outputs]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def case(op_type: str, inputs: list[Any], **attributes: Any) -> Case:
    """Return the case with what ONNX Runtime computes: the reference evaluator has no reverse."""
    session = onnxruntime.InferenceSession(
        model_of(op_type, inputs, **attributes).SerializeToString(),
        providers=["CPUExecutionProvider"],
    )
    feeds = {f"x{i}": array for i, array in enumerate(inputs) if array is not None}
    return Case(
        op_type,
        inputs,
        {"hidden_size": HIDDEN, **attributes},
        known=(1, 2, 3),
        outputs=outputs_of(op_type),
        expected=session.run(None, feeds),
    )


@pytest.mark.slow
@pytest.mark.parametrize("op_type", GATES)
def test_every_direction_agrees_with_onnxruntime(op_type: str) -> None:
    check(
        [
            case(op_type, operands(op_type, 1)),
            case(op_type, operands(op_type, 1), direction="reverse"),
            case(op_type, operands(op_type, 2), direction="bidirectional"),
            case(op_type, operands(op_type, 1)[:3], direction="reverse"),
        ],
        opset=OPSET,
    )


@pytest.mark.slow
@pytest.mark.parametrize("op_type", GATES)
def test_shorter_sequences_stop_early(op_type: str) -> None:
    inputs = operands(op_type, 2)
    inputs[4] = np.array([1, STEPS], np.int32)
    check([case(op_type, inputs, direction="bidirectional")], opset=OPSET)


@pytest.mark.slow
def test_forms_of_single_operators() -> None:
    check(
        [
            case("GRU", operands("GRU", 1), linear_before_reset=1),
            case("GRU", operands("GRU", 1)[:3], linear_before_reset=1),
            case("LSTM", operands("LSTM", 1), input_forget=1),
            case("RNN", operands("RNN", 1), activations=["Relu"]),
            case(
                "RNN",
                operands("RNN", 1),
                activations=["HardSigmoid"],
                activation_alpha=[0.3],
                activation_beta=[0.4],
            ),
        ],
        opset=OPSET,
    )


def test_the_batch_may_come_first() -> None:
    forward = operands("RNN", 1)[:4]
    expected = case("RNN", forward).expected
    assert expected is not None
    first = [forward[0].transpose(1, 0, 2), *forward[1:]]
    # ONNX Runtime has no layout=1.
    check(
        [
            Case(
                "RNN",
                first,
                {"hidden_size": HIDDEN, "layout": 1},
                outputs=2,
                expected=[expected[0].transpose(2, 0, 1, 3), expected[1].transpose(1, 0, 2)],
            )
        ],
        opset=OPSET,
    )


@pytest.mark.slow
@pytest.mark.parametrize("op_type", GATES)
def test_arguments_of_functions_are_clipped(op_type: str) -> None:
    check([case(op_type, operands(op_type, 1), clip=0.3)], opset=OPSET)


def test_what_is_not_translated_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="RNN"):
        from_onnx(model_of("RNN", operands("RNN", 1)[:3], activations=["Softsign"]))
