"""Time products and models with structured zeros: ours sparse and dense, TVM's sparse dense.

    python benchmarks/sparse.py layers [NAME...]
    python benchmarks/sparse.py models [NAME...]

Weights are random or the zoo's; of each group of 16 output channels (one vector of the widest
kind) the largest columns stay, one of RATE. Sides are compiled from the same constants and take
turns; all numbers are checked against ONNX Runtime. Results go to
``out/sparse/KIND.json``; exit code 1 where a number is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relay
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.measuring.machine_peak import multiply_add_meter
from tvm_fusionx.output_file import new_file
from tvm_fusionx.report.bench.plain_tvm import build_plain
from tvm_fusionx.report.bench.timing import threads_apart, time_interleaved
from tvm_fusionx.sparse import find_lists, pretend_pruned
from tvm_fusionx.zoo import catalog

TARGET = "llvm -mcpu=native"
GROUP = 16
REPEAT = 50
# Layers that stay dense are computed by minimal filtering.
TOLERANCE = 1e-4
OUT, ZOO = Path("out/sparse"), Path("out/zoo")

# Convolutions and products with fewer channels are no vectors.
FEWEST = 16


@dataclass(frozen=True)
class Layer:
    """A product: its data, its weight as ONNX has it, and how many times fewer numbers stay."""

    data: tuple[int, ...]
    weight: tuple[int, ...]
    rate: float
    strides: int = 1


LAYERS = {
    "dense 128x3072x768, block 8x": Layer((128, 3072), (768, 3072), 8),
    "dense 128x768x3072, block 4x": Layer((128, 768), (3072, 768), 4),
    "dense 1x3072x768, block 8x": Layer((1, 3072), (768, 3072), 8),
    "1x1 256-1024 at 14, 4x": Layer((1, 256, 14, 14), (1024, 256, 1, 1), 4),
    "1x1 1024-256 at 14, 4x": Layer((1, 1024, 14, 14), (256, 1024, 1, 1), 4),
    "3x3 64-64 at 56, pattern 2.25x": Layer((1, 64, 56, 56), (64, 64, 3, 3), 2.25),
    "3x3 64-64 at 56, 8x": Layer((1, 64, 56, 56), (64, 64, 3, 3), 8),
    "3x3 256-256 at 14, 8x": Layer((1, 256, 14, 14), (256, 256, 3, 3), 8),
    "3x3 128-128 at 56, stride 2, 8x": Layer((1, 128, 56, 56), (128, 128, 3, 3), 8, 2),
    "3x3x3 64-128 at 8x28, 4x": Layer((1, 64, 8, 28, 28), (128, 64, 3, 3, 3), 4),
}

# Rate, and whether 1x1 windows alone are pruned.
MODELS = {
    "bert-base": (4.0, False),
    "resnet50": (8.0, False),
    "vgg16": (8.0, False),
    "efficientnet-b0": (4.0, True),
    "c3d": (4.0, False),
}


def pruned(weight: np.ndarray, rate: float) -> np.ndarray:
    """Return a weight ``[O, ...]`` of which each group of rows keeps its largest columns."""
    matrix = weight.reshape(len(weight), -1)
    return pretend_pruned(matrix, GROUP, rate).reshape(weight.shape)


def model_of(layer: Layer, weight: np.ndarray) -> onnx.ModelProto:
    """Return a layer between two activations, so that its data has the layout of a model's."""
    axes = len(layer.data) - 2
    if axes:
        attributes: dict[str, Any] = {
            "kernel_shape": layer.weight[2:],
            "pads": [size // 2 for size in layer.weight[2:]] * 2,
            "strides": [layer.strides] * axes,
        }
        node = helper.make_node("Conv", ["x", "w"], ["h"], **attributes)
    else:
        node = helper.make_node("Gemm", ["x", "w"], ["h"], transB=1)
    graph = helper.make_graph(
        [node, helper.make_node("Relu", ["h"], ["y"])],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, layer.data)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


def compiled(model: onnx.ModelProto, feeds: dict[str, np.ndarray], is_sparse: bool) -> Any:
    """Return a model built by us, its inputs set; without sparse products where not `is_sparse`."""
    target = fx.schedules.resolve_target(TARGET)
    mod, params = fx.from_onnx(model, shape={name: array.shape for name, array in feeds.items()})
    order = fx.pipeline(target)
    skipped = [] if is_sparse else ["tvm_fusionx.PackSparse"]
    with tvm.transform.PassContext(opt_level=3, disabled_pass=skipped):
        planned = order(bind_parameters(mod, params))
    with fx.lowering(target):
        library = relay.build(planned, target=target)
    return _executor(library, feeds)


def _executor(library: Any, feeds: dict[str, np.ndarray]) -> Any:
    model = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for name, array in feeds.items():
        model.set_input(name, array)
    return model


def tvm_sparse(weight: np.ndarray, x: np.ndarray) -> Any:
    """Return TVM's own sparse dense of the same weight, in blocks of one group and one column."""
    lists = find_lists(weight, GROUP)
    rows = lists.firsts[np.repeat(np.arange(lists.groups), lists.lengths)]
    values = weight[rows[:, None] + np.arange(GROUP), lists.columns[:, None]][:, :, None]
    constants = [
        relay.const(np.ascontiguousarray(array)) for array in (values, lists.columns, lists.starts)
    ]
    data = relay.var("x", shape=x.shape)
    body = relay.nn.relu(relay.nn.sparse_dense(data, tuple(constants)))
    mod = tvm.IRModule.from_expr(relay.Function([data], body))
    return _executor(build_plain(mod, TARGET), {"x": x})


def differs(model: onnx.ModelProto, feeds: dict[str, np.ndarray], side: Any) -> float:
    """Return the largest difference from ONNX Runtime, relative to each largest number."""
    side.run()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return max(
        float(np.abs(side.get_output(at).numpy() - expected).max() / np.abs(expected).max())
        for at, expected in enumerate(session.run(None, feeds))
    )


def time_layer(name: str, layer: Layer) -> dict[str, Any]:
    """Return times of a layer by side, and the share of the peak on what is not zero."""
    draw = np.random.default_rng(0)
    columns = int(np.prod(layer.weight[1:]))
    weight = draw.standard_normal(layer.weight).astype("float32") / np.float32(np.sqrt(columns))
    weight = pruned(weight, layer.rate)
    feeds = {"x": draw.standard_normal(layer.data).astype("float32")}
    model = model_of(layer, weight)
    sides = {"sparse": compiled(model, feeds, True), "dense": compiled(model, feeds, False)}
    if len(layer.data) == 2:
        sides["TVM sparse"] = tvm_sparse(weight, feeds["x"])
    row = timed(model, feeds, sides)
    result = sides["sparse"].get_output(0).numpy()
    flops = 2 * np.count_nonzero(weight) * result.size / layer.weight[0]
    row["gflops_per_second"] = flops / row["ms"]["sparse"] / 1e6
    row["share_of_peak"] = row["gflops_per_second"] / row["peak_gflops_per_second"]
    return {"name": name, **row}


def timed(model: onnx.ModelProto, feeds: Any, sides: dict[str, Any]) -> dict[str, Any]:
    """Return medians and gains of sides that take turns, and how far they are off."""
    off = {side: differs(model, feeds, run) for side, run in sides.items()}
    meter, peaks = multiply_add_meter(TARGET), []
    with threads_apart(fx.threads()):
        found, failed = time_interleaved(
            {side: run.run for side, run in sides.items()},
            REPEAT,
            on_turn=lambda: peaks.append(meter()),
        )
    if failed:
        raise RuntimeError(str(failed))
    times = {side: found[side].median for side in sides}
    return {
        "ms": times,
        "gain": times["dense"] / times["sparse"],
        "difference": off,
        "peak_gflops_per_second": max(peaks),
    }


def prune_model(model: onnx.ModelProto, rate: float, only_pixels: bool) -> int:
    """Prune the weights of products and of convolutions in place; return how many."""
    weights = {each.name: each for each in model.graph.initializer}
    count = 0
    for node in model.graph.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul") or node.input[1] not in weights:
            continue
        told = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        array = numpy_helper.to_array(weights[node.input[1]])
        is_product = node.op_type != "Conv"
        is_small = min(array.shape[:2]) < FEWEST or told.get("group", 1) != 1
        is_left = only_pixels and (is_product or set(array.shape[2:]) != {1})
        if array.dtype != np.float32 or is_small or is_left or (is_product and array.ndim != 2):
            continue
        turns = is_product and not told.get("transB", 0)
        found = pruned(np.ascontiguousarray(array.T), rate).T if turns else pruned(array, rate)
        name = node.input[1]
        weights[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(found), name))
        count += 1
    return count


def time_model(name: str) -> dict[str, Any]:
    """Return times of a pruned model of the zoo by side."""
    rate, only_pixels = MODELS[name]
    path = ZOO / f"{name}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        catalog.export(name, path)
    feeds, model = catalog.sample_inputs(name), onnx.load(path)
    count = prune_model(model, rate, only_pixels)
    sides = {"sparse": compiled(model, feeds, True), "dense": compiled(model, feeds, False)}
    return {"name": name, "rate": rate, "pruned": count, **timed(model, feeds, sides)}


def main() -> int:
    """Time what is asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["layers", "models"])
    parser.add_argument("names", nargs="*", help="all of the kind when none is given")
    told = parser.parse_args()
    fx.threads()
    known: dict[str, Any] = LAYERS if told.kind == "layers" else MODELS
    rows = []
    for name in told.names or known:
        row = time_layer(name, LAYERS[name]) if told.kind == "layers" else time_model(name)
        rows.append(row)
        times = ", ".join(f"{side} {ms:.3f} ms" for side, ms in row["ms"].items())
        share = f", {row['share_of_peak']:.0%} of the peak" if "share_of_peak" in row else ""
        print(f"{name}: {times}: {row['gain']:.2f}x{share}", flush=True)
    OUT.mkdir(parents=True, exist_ok=True)
    with new_file(OUT / f"{told.kind}.json") as scratch:
        scratch.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    wrong = [row["name"] for row in rows if not row["difference"]["sparse"] <= TOLERANCE]
    if wrong:
        print(f"wrong numbers: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
