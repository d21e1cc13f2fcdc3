"""Find out what ONNX Runtime returns beside a NaN: a table of positions and sizes.

    python benchmarks/nan_order.py

Reductions and pools of numbers with one NaN, which moves: a letter for each place where it stands.
N: NaN is the result. .: the largest (smallest) number is. x: another number is, so that the NaN
has hidden the right one.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SIZES = (2, 4, 8, 9, 16, 17, 33)
WINDOWS = (2, 4, 5, 9)
OPSET = 18


def session(op: str, shape: list[int], weights: list[Any], outputs: int, **attributes: Any) -> Any:
    """Return ONNX Runtime with a model of one node."""
    inputs = ["x", *(each.name for each in weights)]
    names = [f"y{at}" for at in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, inputs, names, **attributes)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info(name) for name in names],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    inferred = onnx_types(model)
    return onnxruntime.InferenceSession(inferred.SerializeToString())


def onnx_types(model: Any) -> Any:
    """Return the model with types, which ONNX Runtime asks for."""
    from onnx import shape_inference

    return shape_inference.infer_shapes(model)


def letter(found: float, numbers: np.ndarray, is_largest: bool) -> str:
    """Return what a result is, of numbers with a NaN among them."""
    if np.isnan(found):
        return "N"
    return "." if found == (np.nanmax if is_largest else np.nanmin)(numbers) else "x"


def row(run: Any, shape: list[int], axis: int, is_largest: bool) -> str:
    """Return the letters of a NaN at each place of an axis."""
    size = shape[axis]
    numbers = np.random.default_rng(size).permutation(size).astype("float32") + 1
    letters = []
    for place in range(size):
        given = numbers.copy()
        given[place] = np.nan
        wide = [size if at == axis else 1 for at in range(len(shape))]
        x = np.ascontiguousarray(np.broadcast_to(given.reshape(wide), shape))
        (found,) = run.run(None, {"x": x})
        letters.append(letter(found.reshape(-1)[0], given, is_largest))
    return "".join(letters)


def tables() -> dict[str, dict[int, str]]:
    """Return the letters by operator and axis, and by size."""
    found: dict[str, dict[int, str]] = {}
    for op in ("ReduceMax", "ReduceMin"):
        for name, axis in (("last axis", 1), ("first axis", 0)):
            axes = numpy_helper.from_array(np.array([axis]), "axes")
            table = found[f"{op}, {name}"] = {}
            for size in SIZES:
                shape = [1, size] if axis else [size, 3]
                run = session(op, shape, [axes], 1, keepdims=0)
                table[size] = row(run, shape, axis, op == "ReduceMax")
    table = found["MaxPool"] = {}
    for size in WINDOWS:
        run = session("MaxPool", [1, 1, size], [], 1, kernel_shape=[size])
        table[size] = row(run, [1, 1, size], 2, is_largest=True)
    return found


def main() -> int:
    """Print the tables."""
    onnxruntime.set_default_logger_severity(3)
    for name, table in tables().items():
        sys.stdout.write(f"{name}\n")
        for size, letters in table.items():
            sys.stdout.write(f"  {size:3} {letters}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
