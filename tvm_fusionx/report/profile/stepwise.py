"""Run a built library one kernel at a time, on operands of the caller's choice.

TVM's debug executor cannot do this: it gives copies of a node's outputs and takes no inputs but the
model's. The kernels here are the library's own; only the walk over the graph is ours, and no two
tensors share storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm

from tvm_fusionx._tvm.arrays import numpy_of
from tvm_fusionx.build.kernels import GraphNode, KernelGraph
from tvm_fusionx.inputs import InputSpec

# TVM's name for a node that copies its input, as for an output that is also another output.
COPY = "__copy"


class StepwiseExecutor:
    """The kernels of one library, callable one by one on the CPU or another device.

    Parameters
    ----------
    library
        A graph-executor factory module, from ``fx.build`` or ``relay.build``.
    device
        Where the kernels run, also behind RPC; the first CPU by default.
    """

    def __init__(self, library: Any, device: Any = None) -> None:
        self.graph = KernelGraph.from_json(library.get_graph_json())
        self.device = device if device is not None else tvm.cpu(0)
        self._module = library.get_lib()
        # Which constants are images of OpenCL, where any are.
        scopes = {
            node.name: node.scope for node in self.graph.nodes if not node.is_call and node.scope
        }
        self._params = {
            name: tvm.nd.array(value, self.device, scopes.get(name))
            for name, value in library.get_params().items()
        }

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        """Return what the model takes, in the order of the graph."""
        return tuple(
            InputSpec(node.name, node.outputs[0].shape, node.outputs[0].dtype)
            for node in self.graph.nodes
            if not node.is_call and node.name not in self._params
        )

    def parameter(self, node: GraphNode) -> Any | None:
        """Return the constant that an input node stands for, or None for an input of the model."""
        return self._params.get(node.name)

    def launches(self, node: GraphNode) -> bool:
        """Tell whether the node calls a compiled kernel, not the executor's own copy or view."""
        return node.is_kernel and node.function != COPY

    def outputs_of(self, node: GraphNode, operands: Sequence[Any]) -> list[Any]:
        """Run one node on `operands` and return its outputs.

        Parameters
        ----------
        node
            A node of :attr:`graph` that is a call.
        operands
            One ``tvm.nd.NDArray`` for each of ``node.inputs``, of the shape and dtype the node
            takes.

        Returns
        -------
        list of tvm.nd.NDArray
            Newly allocated, one for each of ``node.outputs``.
        """
        if not self.launches(node):
            value = numpy_of(operands[0]).reshape(node.outputs[0].shape)
            return [tvm.nd.array(value, self.device)]
        outputs = [tvm.nd.empty(t.shape, t.dtype, self.device) for t in node.outputs]
        self._module[node.function](*operands, *outputs)
        return outputs

    def seconds_per_run(
        self, node: GraphNode, operands: Sequence[Any], repeat: int, min_repeat_ms: int
    ) -> list[float]:
        """Time one kernel alone, operands already in place.

        Parameters
        ----------
        repeat
            Number of measurements.
        min_repeat_ms
            Least duration of one measurement, in milliseconds; a kernel shorter than that runs as
            often as needed to fill it.

        Returns
        -------
        list of float
            Seconds of one run, one value a measurement.
        """
        outputs = [tvm.nd.empty(t.shape, t.dtype, self.device) for t in node.outputs]
        evaluate = self._module.time_evaluator(
            node.function, self.device, number=1, repeat=repeat, min_repeat_ms=min_repeat_ms
        )
        return [float(seconds) for seconds in evaluate(*operands, *outputs).results]

    def to_device(self, value: Any) -> Any:
        """Return `value` as an array on this executor's device."""
        return tvm.nd.array(np.asarray(value, order="C"), self.device)
