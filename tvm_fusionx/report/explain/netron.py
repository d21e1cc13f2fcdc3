"""Write a plan as an ONNX file that Netron draws: one node a block, its operators a function.

The file is to be looked at, not to be run: operators are Relay's, and constants have a type but no
data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.ecg.graph import Value
from tvm_fusionx.ecg.types import TensorType
from tvm_fusionx.fusion import Block, Plan
from tvm_fusionx.output_file import new_file
from tvm_fusionx.report.explain.model_explorer import value_name

# Domains of the operators in the file.
BLOCKS, OPERATORS = "fusionx", "relay"
# ONNX 1.10, the first with functions in a model.
IR_VERSION, OPSET = 8, 15
# Where the data of constants would be; nothing reads it.
NO_DATA = "not-exported"


def netron_model(plan: Plan, title: str) -> Any:
    """Return a plan as an ONNX model with a function for each block.

    Parameters
    ----------
    plan
        Blocks of one graph.
    title
        Name of the graph.

    Returns
    -------
    onnx.ModelProto
        Nodes and functions bear the blocks' names, their operators the names on the report's edges.
    """
    from onnx import helper

    given = _results(plan)
    nodes, functions = [], []
    sources: dict[Value, None] = {}
    for block in plan.blocks:
        members = set(block.nodes)
        reads = dict.fromkeys(
            value for node in block.nodes for value in node.operands if value.node not in members
        )
        sources.update(dict.fromkeys(value for value in reads if value.node not in plan.labels))
        names = [_tensor(plan, value) for value in reads]
        results = [_tensor(plan, value) for node in block.nodes for value in node if value in given]
        functions.append(_function(plan, block, names, results))
        nodes.append(
            helper.make_node(
                block.name,
                names,
                results,
                name=block.name,
                domain=BLOCKS,
                mapping_type=block.mapping_type.value,
                bytes_never_written=block.bytes_saved,
                flops=block.flops,
            )
        )
    graph = helper.make_graph(
        nodes,
        title or "main",
        [_info(plan, value) for value in sources if not value.is_constant],
        [_info(plan, value) for value in plan.outputs],
        [_without_data(plan, value) for value in sources if value.is_constant],
        value_info=[_info(plan, value) for value in given if value not in plan.outputs],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    opsets += [helper.make_opsetid(domain, 1) for domain in (BLOCKS, OPERATORS)]
    model = helper.make_model(
        graph, functions=functions, opset_imports=opsets, producer_name="tvm_fusionx"
    )
    model.ir_version = IR_VERSION
    return model


def save_netron(plan: Plan, title: str, path: str | Path) -> None:
    """Write :func:`netron_model` to a file.

    Raises
    ------
    OutputFileError
        The file cannot be written.
    """
    with new_file(path) as scratch:
        scratch.write_bytes(netron_model(plan, title).SerializeToString())


def _results(plan: Plan) -> dict[Value, None]:
    """Return every value that leaves its block, in order of appearance."""
    home = {node: block.name for block in plan.blocks for node in block.nodes}
    found = dict.fromkeys(value for value in plan.outputs if value.node in home)
    for consumer, block in home.items():
        for value in consumer.operands:
            if home.get(value.node, block) != block:
                found[value] = None
    return found


def _function(plan: Plan, block: Block, names: list[str], results: list[str]) -> Any:
    from onnx import helper

    calls = [
        helper.make_node(
            node.op,
            [_tensor(plan, value) for value in node.operands],
            [_tensor(plan, value) for value in node],
            name=plan.labels[node],
            domain=OPERATORS,
            **{name: str(value) for name, value in node.attrs.items() if value is not None},
        )
        for node in block.nodes
    ]
    return helper.make_function(
        BLOCKS, block.name, names, results, calls, [helper.make_opsetid(OPERATORS, 1)]
    )


def _tensor(plan: Plan, value: Value) -> str:
    label = plan.labels.get(value.node)
    if label is None:
        return value_name(value)
    return f"{label}:{value.index}" if value.node.returns_tuple else label


def _info(plan: Plan, value: Value) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(
        _tensor(plan, value), _element_type(value.type), list(value.shape)
    )


def _without_data(plan: Plan, value: Value) -> Any:
    from onnx import TensorProto

    tensor = TensorProto(name=_tensor(plan, value), data_type=_element_type(value.type))
    tensor.dims.extend(value.shape)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=NO_DATA)
    return tensor


def _element_type(type_: TensorType) -> int:
    from onnx import TensorProto, helper

    try:
        return int(helper.np_dtype_to_tensor_dtype(np.dtype(type_.dtype)))
    except (KeyError, TypeError):  # an element type that ONNX or numpy has no word for
        return int(TensorProto.UNDEFINED)
