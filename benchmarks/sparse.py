"""Time products and models with structured zeros: ours sparse and dense, and other runtimes.

    python benchmarks/sparse.py [NAME...] [--out benchmarks/results/sparse] [--repeat 50]
                                [--limit 300] [--again]
    python benchmarks/sparse.py --table

NAME is one of LAYERS or MODELS; all by default, those first that the comparison is about. Weights
are random or the zoo's; of each group of 16 output channels (one vector of the widest kind) the
largest columns stay, one of RATE. All sides read the same weights, take turns, and are checked
against ONNX Runtime; TVM runs its own sparse operators, OpenVINO and MNN have their switches for
sparse weights set (`sparse_sides.py`).

Each layer or model has a process of its own, of at most --limit seconds, and a file in OUT, written
at once: what has one of equal sources and options is not measured again but for --again. --table
prints what the files say. Exit code 1 where a number of ours is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import onnx
import onnxruntime
import tvm
from int8 import sources
from onnx import TensorProto, helper, numpy_helper
from sparse_sides import GROUP, Side, executor, of_executor, peers, saved, tvm_sparse
from sparse_table import pruned_page
from tvm import relay

import tvm_fusionx as fx
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.measuring.machine_peak import multiply_add_meter
from tvm_fusionx.output_file import make_folder, new_file
from tvm_fusionx.report.bench.bench import describe_device
from tvm_fusionx.report.bench.timing import describe_failure, threads_apart, time_interleaved
from tvm_fusionx.sparse import pretend_pruned
from tvm_fusionx.zoo import catalog

TARGET = "llvm -mcpu=native"
DEFAULT_REPEAT = 50
DEFAULT_LIMIT_SECONDS = 300
# Layers that stay dense are computed by minimal filtering.
TOLERANCE = 1e-4
RESULTS, ZOO = Path("benchmarks/results/sparse"), Path("out/zoo")

SPARSE, DENSE, TVM_SPARSE = "sparse", "dense", "TVM sparse"

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

# Rate, and whether 1x1 windows alone are pruned. The seed names no rate for the last three.
MODELS = {
    "bert-base": (4.0, False),
    "resnet50": (8.0, False),
    "vgg16": (8.0, False),
    "efficientnet-b0": (4.0, True),
    "c3d": (4.0, False),
    "gpt2": (4.0, False),
    "unet": (4.0, False),
    "yolo-v4": (4.0, False),
}


def pruned(weight: np.ndarray, rate: float) -> np.ndarray:
    """Return a weight ``[O, ...]`` of which each group of rows keeps its largest columns."""
    matrix = weight.reshape(len(weight), -1)
    return pretend_pruned(matrix, GROUP, rate).reshape(weight.shape)


def model_of(layer: Layer, weight: np.ndarray) -> onnx.ModelProto:
    """Return a layer and the activation behind it."""
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
    """Return a library built by us; without sparse products where not `is_sparse`."""
    target = fx.schedules.resolve_target(TARGET)
    mod, params = fx.from_onnx(model, shape={name: array.shape for name, array in feeds.items()})
    order = fx.pipeline(target)
    skipped = [] if is_sparse else ["tvm_fusionx.PackSparse"]
    with tvm.transform.PassContext(opt_level=3, disabled_pass=skipped):
        planned = order(bind_parameters(mod, params))
    with fx.lowering(target):
        return relay.build(planned, target=target)


def layer_sides(name: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray], dict[str, Side], float]:
    """Return a layer with its inputs, TVM's sparse side, and operations on what is not zero."""
    layer = LAYERS[name]
    draw = np.random.default_rng(0)
    columns = int(np.prod(layer.weight[1:]))
    weight = draw.standard_normal(layer.weight).astype("float32") / np.float32(np.sqrt(columns))
    weight = pruned(weight, layer.rate)
    x = draw.standard_normal(layer.data).astype("float32")
    found = tvm_sparse(weight, x, layer.strides, TARGET)
    places = layer.data[0] * int(np.prod([-(-size // layer.strides) for size in layer.data[2:]]))
    flops = 2.0 * np.count_nonzero(weight) * places
    sides = {} if found is None else {TVM_SPARSE: found}
    return model_of(layer, weight), {"x": x}, sides, flops


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


def model_sides(name: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray], int]:
    """Return a pruned model of the zoo, its inputs, and how many weights were pruned."""
    rate, only_pixels = MODELS[name]
    path = ZOO / f"{name}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        catalog.export(name, path)
    feeds, model = catalog.sample_inputs(name), onnx.load(path)
    return model, feeds, prune_model(model, rate, only_pixels)


def measure(name: str, repeat: int) -> dict[str, Any]:
    """Return the row of a layer or a model."""
    row: dict[str, Any] = {"name": name}
    sides: dict[str, Side] = {}
    flops = 0.0
    if name in LAYERS:
        model, feeds, sides, flops = layer_sides(name)
        row |= {"kind": "layer", "rate": LAYERS[name].rate}
    else:
        model, feeds, count = model_sides(name)
        row |= {"kind": "model", "rate": MODELS[name][0], "pruned": count}
    libraries = {kind: compiled(model, feeds, kind == SPARSE) for kind in (SPARSE, DENSE)}
    ours = {kind: of_executor(executor(each, feeds)) for kind, each in libraries.items()}
    row["weight_bytes"] = {kind: _weight_bytes(each) for kind, each in libraries.items()}
    with saved(model) as path:
        others, failures, versions = peers(path, feeds, fx.threads())
        row |= timed(model, feeds, {**ours, **sides, **others}, repeat)
    row["failures"] |= failures
    row["versions"] = {**versions, "TVM": tvm.__version__}
    if flops:
        row["gflops_per_second"] = flops / row["ms"][SPARSE] / 1e6
        row["share_of_peak"] = row["gflops_per_second"] / row["peak_gflops_per_second"]
    return row


def _weight_bytes(library: Any) -> int:
    return sum(value.numpy().nbytes for value in library.get_params().values())


def timed(
    model: onnx.ModelProto, feeds: dict[str, np.ndarray], sides: dict[str, Side], repeat: int
) -> dict[str, Any]:
    """Return medians and gains of sides that take turns, and how far they are off."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, feeds)
    del session
    off, failures = {}, {}
    for name, side in sides.items():
        try:
            off[name] = differs(side, expected)
        except Exception as error:  # another runtime may raise anything
            if name in (SPARSE, DENSE):
                raise
            failures[name] = describe_failure(error)
    meter, peaks = multiply_add_meter(TARGET), []
    threads = fx.threads()
    with threads_apart(threads):
        found, failed = time_interleaved(
            {name: sides[name].run for name in off},
            repeat,
            on_turn=lambda: peaks.append(meter()),
        )
    times = {name: each.median for name, each in found.items()}
    # What computes something else counts nowhere.
    right = {name: ms for name, ms in times.items() if off[name] <= TOLERANCE}
    others = [ms for name, ms in right.items() if name not in (SPARSE, DENSE)]
    return {
        "ms": times,
        "p10_p90": {name: [each.p10, each.p90] for name, each in found.items()},
        "gain": times[DENSE] / times[SPARSE],
        "best_other": min(others) / times[SPARSE] if others else None,
        "difference": off,
        "failures": {**failures, **failed},
        "threads": threads,
        "device": describe_device(),
        "peak_gflops_per_second": max(peaks),
    }


def differs(side: Side, expected: Sequence[np.ndarray]) -> float:
    """Return the largest difference from ONNX Runtime, relative to each largest number."""
    found = side.outputs(side.run())
    return max(
        float(np.abs(array.reshape(right.shape) - right).max() / np.abs(right).max())
        for array, right in zip(found, expected, strict=True)
    )


def file_of(folder: Path, name: str) -> Path:
    """Return the file of a row."""
    return folder / f"{name.replace(' ', '-').replace(',', '')}.json"


def in_own_process(name: str, told: argparse.Namespace, options: dict[str, Any]) -> dict[str, Any]:
    """Return the row that a process of its own measured, or why there is none."""
    path = file_of(told.out, name)
    path.unlink(missing_ok=True)
    words = [sys.executable, __file__, name, "--single", "--out", str(told.out)]
    words += ["--repeat", str(told.repeat)]
    try:
        code = subprocess.run(words, timeout=told.limit, check=False).returncode
        why = f"its process ended with {code}"
    except subprocess.TimeoutExpired:
        why = f"it took more than {told.limit} seconds"
    row = read_row(path) or {"name": name, "failed": why}
    write_row(path, {**row, "options": options})
    return row


def read_row(path: Path) -> dict[str, Any] | None:
    """Return what a file has, None where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def write_row(path: Path, row: dict[str, Any]) -> None:
    """Write a row, whole or not at all."""
    with new_file(path) as scratch:
        scratch.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")


def told_of(row: dict[str, Any]) -> str:
    """Return a row as a line."""
    if "failed" in row:
        return f"{row['name']}: {row['failed']}"
    times = ", ".join(f"{side} {ms:.3f} ms" for side, ms in row["ms"].items())
    share = f", {row['share_of_peak']:.0%} of the peak" if "share_of_peak" in row else ""
    wrong = [side for side, off in row["difference"].items() if not off <= TOLERANCE]
    told = "".join(f"; {side} computes something else" for side in wrong)
    failed = "".join(f"; {side}: {why}" for side, why in row["failures"].items())
    return f"{row['name']}: {times}: {row['gain']:.2f}x{share}{told}{failed}"


def main(words: Sequence[str] | None = None) -> int:
    """Time what is asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[*LAYERS, *MODELS])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--repeat", type=int, default=DEFAULT_REPEAT)
    parser.add_argument("--limit", type=float, default=DEFAULT_LIMIT_SECONDS, help="seconds each")
    parser.add_argument("--again", action="store_true", help="measure what was measured before")
    parser.add_argument("--table", action="store_true", help="print what the files say")
    parser.add_argument("--single", action="store_true", help=argparse.SUPPRESS)
    told = parser.parse_args(words)
    unknown = [name for name in told.names if name not in {**LAYERS, **MODELS}]
    if unknown:
        parser.error(f"{unknown[0]}: expected some of {', '.join([*LAYERS, *MODELS])}")
    if told.table:
        found = (read_row(file_of(told.out, name)) for name in told.names)
        print(pruned_page([row for row in found if row is not None]))
        return 0
    make_folder(told.out)
    if told.single:
        write_row(file_of(told.out, told.names[0]), measure(told.names[0], told.repeat))
        return 0
    options = {"sources": sources(), "repeat": told.repeat}
    wrong = []
    for name in told.names:
        row = None if told.again else read_row(file_of(told.out, name))
        if row is None or "failed" in row or row.get("options") != options:
            row = in_own_process(name, told, options)
        print(told_of(row), flush=True)
        if "failed" in row or not row["difference"][SPARSE] <= TOLERANCE:
            wrong.append(name)
    if wrong:
        print(f"no result, or a wrong one: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
