from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.data_models import assert_agrees, built, by_onnxruntime, floats, looping, made
from tests.relay_modules import REASSOCIATING, assert_close
from tests.tiny_models import FEATURES, ROWS, TARGET, perceptron
from tests.yolo_with_nms import with_suppression
from tvm_fusionx.build.fused_build import notes_of
from tvm_fusionx.build.vm_program import OutputSpec, VmProgram, build_for_machine, outputs_of
from tvm_fusionx.errors import InputError, TargetError
from tvm_fusionx.zoo import export


def test_a_static_model_runs_by_the_machine_with_the_same_templates() -> None:
    mod, _ = fx.from_onnx(perceptron())
    program = fx.build(mod, TARGET, executor="vm")
    assert isinstance(program, VmProgram)
    given = {"x": floats(ROWS, FEATURES)}
    (found,) = program.run(**given)
    assert_close([found], by_onnxruntime(perceptron(), given), REASSOCIATING)
    graph = fx.build(mod, TARGET)
    served = [note.template for note in notes_of(graph)]
    assert served
    assert set(served) <= {note.template for note in program.kernels}


def test_each_input_is_checked() -> None:
    mod, _ = fx.from_onnx(looping())
    program = fx.build(mod, TARGET)
    with pytest.raises(InputError, match="shape"):
        program.run(x=floats(5))


def test_a_program_for_the_graph_executor_runs_it() -> None:
    program = built(looping())
    model = graph_executor.GraphModule(program["default"](tvm.cpu()))
    assert model.get_num_inputs() == 1
    assert model.get_input_index("x") == 0
    given = {"x": np.array([1, 2, 3, 4], "float32")}
    model.run(**given)
    assert model.get_num_outputs() == 2
    assert_close([model.get_output(i).numpy() for i in (0, 1)], program.run(**given), 0.0)
    model.set_input("x", np.ones(4, "float32"))
    assert model.get_input("x").numpy().tolist() == [1, 1, 1, 1]
    with pytest.raises(KeyError):
        program["other"]


def test_a_target_that_is_no_cpu_is_refused() -> None:
    mod, _ = fx.from_onnx(looping())
    with pytest.raises(TargetError, match=r"virtual machine.*a CPU.*opencl"):
        fx.build(mod, "opencl")


def test_stages_are_told_and_machines_are_apart() -> None:
    mod, _ = fx.from_onnx(looping())
    stages: list[str] = []
    program = build_for_machine(mod, TARGET, on_stage=stages.append, model_name="double")
    assert stages[0] == "planning"
    assert any(stage.startswith("scheduling kernel") for stage in stages)
    assert program.model == "double"
    given = {"x": np.ones(4, "float32")}
    one, other = (outputs_of(program.machine(), given) for _ in range(2))
    assert_close(one, other, 0.0)


def test_an_output_shows_what_the_data_decides() -> None:
    assert str(OutputSpec("y", (None, 6), "float32")) == "y:[?,6] float32"


def test_a_detectors_network_has_templates_and_its_selection_agrees() -> None:
    # A network of one layer that predicts [1, 4 + 3 classes, 32 boxes].
    feeds = {"image": floats(1, 8, 32, 1)}
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["maps"], kernel_shape=[1, 1]),
        helper.make_node("Sigmoid", ["maps"], ["bounded"]),
        helper.make_node("Reshape", ["bounded", "flat"], ["predictions"]),
    ]
    weights = {"w": floats(7, 8, 1, 1, seed=1), "flat": np.array([1, 7, 32])}
    given = made(nodes, feeds, [], weights)
    given.graph.output.append(helper.make_tensor_value_info("predictions", 1, [1, 7, 32]))
    program = assert_agrees(with_suppression(given), feeds, {"image": -feeds["image"]})
    assert any(note.template != "topi" for note in program.kernels)


def test_a_region_detectors_tail_agrees_whole() -> None:
    """Scores filtered, boxes suppressed, five of them pooled, and a head on what is left."""
    node = helper.make_node
    feeds = {
        "boxes": np.abs(floats(40, 4)),
        "scores": np.random.default_rng(1).random(40).astype("float32"),
        "maps": floats(1, 4, 8, 8),
    }
    nodes = [
        node("Greater", ["scores", "least"], ["flags"]),
        node("NonZero", ["flags"], ["table"]),
        node("Squeeze", ["table", "zero"], ["at"]),
        node("Gather", ["boxes", "at"], ["b"]),
        node("Gather", ["scores", "at"], ["s"]),
        node("Unsqueeze", ["b", "zero"], ["b_of_image"]),
        node("Unsqueeze", ["s", "two_axes"], ["s_of_class"]),
        node("NonMaxSuppression", ["b_of_image", "s_of_class", "most", "overlap"], ["rows"], "nms"),
        node("Gather", ["rows", "two"], ["keep"], axis=1),
        node("Shape", ["keep"], ["count"]),
        node("Concat", ["count", "five"], ["both"], axis=0),
        node("ReduceMin", ["both"], ["k"], keepdims=1),
        node("Slice", ["keep", "zero", "k"], ["first"]),
        node("Gather", ["b", "first"], ["regions"]),
        node("Gather", ["s", "first"], ["kept_scores"]),
        node("Cast", ["kept_scores"], ["whole"], to=TensorProto.INT64),
        node("Mul", ["whole", "nothing"], ["image"]),
        node(
            "RoiAlign",
            ["maps", "regions", "image"],
            ["pooled"],
            output_height=3,
            output_width=3,
            sampling_ratio=2,
            coordinate_transformation_mode="output_half_pixel",
        ),
        node("Flatten", ["pooled"], ["flat"]),
        node("Gemm", ["flat", "w", "bias"], ["logits"]),
        node("Softmax", ["logits"], ["classes"]),
    ]
    weights = {
        "least": np.float32(0.3),
        "zero": np.array([0]),
        "two_axes": np.array([0, 1]),
        "most": np.array([100]),
        "overlap": np.array([0.5], "float32"),
        "two": np.array(2),
        "five": np.array([5]),
        "nothing": np.array(0),
        "w": floats(36, 6),
        "bias": floats(6),
    }
    given = made(nodes, feeds, ["regions", "kept_scores", "classes"], weights)
    program = assert_agrees(given, feeds, {**feeds, "scores": 0 * feeds["scores"]})
    assert [output.dims for output in program.outputs] == [(None, 4), (None,), (None, 6)]


@pytest.mark.slow
def test_yolo_v8_with_suppression_in_the_graph(tmp_path: Path) -> None:
    """Predictions agree with ONNX Runtime's, and of equal predictions the same boxes are kept."""
    pytest.importorskip("torch")
    export("yolo-v8n", tmp_path / "yolo.onnx")
    alone = onnx.load(tmp_path / "yolo.onnx")
    given = with_suppression(alone, most=20, score=0.5)
    predictions = alone.graph.output[0]
    given.graph.output.append(predictions)
    mod, _ = fx.from_onnx(given)
    program = fx.build(mod, TARGET)
    assert {"winograd", "pointwise"} <= {note.template for note in program.kernels}
    name = given.graph.input[0].name
    picture = np.random.default_rng(0).random((1, 3, 640, 640)).astype("float32")
    detections, count, predicted = program.run(**{name: picture})
    (wanted,) = by_onnxruntime(alone, {name: picture})
    assert np.abs(predicted - wanted).max() <= 1e-4 * np.abs(wanted).max()
    # The tail alone, on the same predictions: a rounding decides which of two boxes is the better.
    tail = made([helper.make_node("Identity", ["p"], ["q"])], {"p": predicted}, [])
    element = predictions.type.tensor_type.elem_type
    tail.graph.output.append(helper.make_tensor_value_info("q", element, wanted.shape))
    kept, number = by_onnxruntime(with_suppression(tail, most=20, score=0.5), {"p": predicted})
    assert count.tolist() == number.tolist()
    np.testing.assert_allclose(detections, kept, 1e-5)


def test_no_output_is_lost_of_a_single_tensor() -> None:
    mod, _ = fx.from_onnx(perceptron())
    program = build_for_machine(mod, TARGET)
    assert len(program.outputs) == 1
    assert isinstance(program.machine(), tvm.runtime.vm.VirtualMachine)
