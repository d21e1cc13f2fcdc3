"""What pruned layers and models are compared with: other runtimes, told to leave zeros out.

Each reads the same weights. TVM's own sparse operators get blocks of one group of rows and one
column, the structure that the weights have. OpenVINO and MNN get the whole model and their own
switch for sparse weights; what they make of it is theirs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from tvm_fusionx.report.bench.plain_tvm import build_plain
from tvm_fusionx.report.bench.timing import describe_failure
from tvm_fusionx.report.peers import PreparedPeer, mnn_session, onnx_runtime, open_vino
from tvm_fusionx.report.peers.conversions import Conversions
from tvm_fusionx.sparse import find_lists

# Rows that share a list: one vector of the widest kind.
GROUP = 16

# Share of zeros from which OpenVINO may keep a weight compressed; all of ours have more.
OPENVINO_SPARSE = {"CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE": 0.5}
# MNN's converter counts zeros and marks what its sparse kernels should gain from.
MNN_SPARSE = ("--detectSparseSpeedUp",)

IMAGE_AXES = 4
SPARSE_CONV2D_ATTRIBUTES = "relay.attrs.SparseConv2DAttrs"

# Pixels of a side of the windows that TVM has sparse operators for.
TVM_WINDOWS = (1, 3)


@dataclass(frozen=True)
class Side:
    """Something to run, and its outputs as the model has them."""

    run: Callable[[], Any]
    outputs: Callable[[Any], list[np.ndarray]]


def of_executor(executor: Any, order: tuple[int, ...] | None = None) -> Side:
    """Return a side of a graph executor whose axes are in another `order`."""

    def outputs(_: Any) -> list[np.ndarray]:
        found = [executor.get_output(at).numpy() for at in range(executor.get_num_outputs())]
        return found if order is None else [array.transpose(order) for array in found]

    return Side(executor.run, outputs)


def executor(library: Any, feeds: Mapping[str, np.ndarray]) -> Any:
    """Return a graph executor whose inputs are set."""
    model = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for name, array in feeds.items():
        model.set_input(name, array)
    return model


def tvm_sparse(weight: np.ndarray, x: np.ndarray, strides: int, target: str) -> Side | None:
    """Return TVM's own sparse product of a layer, its ReLU behind it; None where it has none.

    It has products of matrices, and windows of 1 x 1 and 3 x 3 pixels of stride 1.
    """
    if x.ndim == 2:
        body = relay.nn.sparse_dense(relay.var("x", shape=x.shape), _blocks(weight))
        return of_executor(_built(body, x, target))
    kernel = weight.shape[-1]
    if x.ndim != IMAGE_AXES or strides != 1 or kernel not in TVM_WINDOWS:
        return None
    # Its windows read channels innermost; the columns of its weight are rows, columns, channels.
    matrix = np.ascontiguousarray(weight.transpose(0, 2, 3, 1).reshape(len(weight), -1))
    data = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    given = relay.var("x", shape=data.shape)
    # Relay has the operator, and no function that makes a call of it.
    attrs = tvm.ir.make_node(SPARSE_CONV2D_ATTRIBUTES, layout="NHWC", kernel_size=[kernel, kernel])
    body = relay.Call(relay.op.get("nn.sparse_conv2d"), [given, *_blocks(matrix)], attrs)
    return of_executor(_built(body, data, target), (0, 3, 1, 2))


def _blocks(matrix: np.ndarray) -> tuple[Any, Any, Any]:
    """Return a weight as blocks of one group and one column, which TVM reads."""
    lists = find_lists(matrix, GROUP)
    rows = lists.firsts[np.repeat(np.arange(lists.groups), lists.lengths)]
    values = matrix[rows[:, None] + np.arange(GROUP), lists.columns[:, None]][:, :, None]
    data, columns, starts = (
        relay.const(np.ascontiguousarray(array)) for array in (values, lists.columns, lists.starts)
    )
    return data, columns, starts


def _built(body: Any, x: np.ndarray, target: str) -> Any:
    made = relay.nn.relu(body)
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(made), made))
    return executor(build_plain(mod, target), {"x": x})


@contextmanager
def saved(model: onnx.ModelProto) -> Any:
    """Yield a model as a file."""
    with tempfile.TemporaryDirectory(prefix="fusionx-sparse-") as folder:
        path = Path(folder) / "pruned.onnx"
        onnx.save(model, path)
        yield path


def peers(
    path: Path, feeds: Mapping[str, np.ndarray], threads: int
) -> tuple[dict[str, Side], dict[str, str], dict[str, str]]:
    """Return the other runtimes' sides of a model, why some are missing, and their versions."""
    kept = Conversions()
    prepares: dict[str, Callable[[], PreparedPeer]] = {
        "ONNX Runtime": lambda: onnx_runtime.prepare(path, feeds, threads, kept),
        "OpenVINO": lambda: open_vino.prepare(path, feeds, threads, kept, OPENVINO_SPARSE),
        "MNN": lambda: mnn_session.prepare(path, feeds, threads, kept, MNN_SPARSE),
    }
    sides: dict[str, Side] = {}
    failures: dict[str, str] = {}
    versions: dict[str, str] = {}
    for name, prepare in prepares.items():
        try:
            prepared = prepare()
        except Exception as error:  # another runtime may raise anything
            failures[name] = describe_failure(error)
            continue
        sides[name] = Side(prepared.run, prepared.outputs)
        versions[name] = prepared.version
    return sides, failures, versions
