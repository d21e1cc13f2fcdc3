"""A detector's head as exporters write it: predictions, then the best boxes, all in the graph."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Rows of a prediction before the classes: center and size of a box.
BOX_ROWS = 4


def with_suppression(
    given: onnx.ModelProto, most: int = 100, overlap: float = 0.45, score: float = 0.25
) -> onnx.ModelProto:
    """Return a model of YOLO's predictions [1, 4 + classes, boxes] that selects in the graph.

    Its outputs are a row of corners, score and class for each box that is kept, and how many.
    """
    made = onnx.ModelProto.FromString(given.SerializeToString())
    predictions = made.graph.output[0].name
    classes = made.graph.output[0].type.tensor_type.shape.dim[1].dim_value - BOX_ROWS

    def constant(name: str, array: np.ndarray) -> str:
        made.graph.initializer.append(numpy_helper.from_array(array, f"nms_{name}"))
        return f"nms_{name}"

    parts = constant("parts", np.array([BOX_ROWS, classes]))
    one, zero = constant("one", np.array([1])), constant("zero", np.array([0]))
    nodes = [
        helper.make_node("Split", [predictions, parts], ["nms_raw", "nms_all"], axis=1),
        helper.make_node("Cast", ["nms_all"], ["nms_scores"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["nms_raw"], ["nms_wide"], perm=[0, 2, 1]),
        # Some exports compute their anchors in double.
        helper.make_node("Cast", ["nms_wide"], ["nms_boxes"], to=TensorProto.FLOAT),
        helper.make_node(
            "NonMaxSuppression",
            [
                "nms_boxes",
                "nms_scores",
                constant("most", np.array([most])),
                constant("overlap", np.array([overlap], "float32")),
                constant("score", np.array([score], "float32")),
            ],
            ["nms_selected"],
            "suppress",
            center_point_box=1,
        ),
        helper.make_node("GatherND", ["nms_scores", "nms_selected"], ["nms_kept_scores"]),
        helper.make_node(
            "Gather", ["nms_selected", constant("box", np.array(2))], ["nms_at"], axis=1
        ),
        helper.make_node("Squeeze", ["nms_boxes", zero], ["nms_table"]),
        helper.make_node("Gather", ["nms_table", "nms_at"], ["nms_kept"]),
        helper.make_node(
            "Slice",
            ["nms_selected", one, constant("two", np.array([2])), one],
            ["nms_class"],
        ),
        helper.make_node("Cast", ["nms_class"], ["nms_labels"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["nms_kept_scores", one], ["nms_column"]),
        helper.make_node(
            "Concat", ["nms_kept", "nms_column", "nms_labels"], ["detections"], axis=1
        ),
        helper.make_node("Shape", ["detections"], ["count"], end=1),
    ]
    made.graph.node.extend(nodes)
    del made.graph.output[:]
    made.graph.output.extend(
        [
            helper.make_tensor_value_info("detections", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("count", TensorProto.INT64, [1]),
        ]
    )
    return made
