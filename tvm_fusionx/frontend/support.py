"""Which ONNX operators can be translated, and how; all that cannot are reported together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from onnx import defs

from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.converters import CONVERTERS
from tvm_fusionx.frontend.evaluate import RANDOM_OPERATORS
from tvm_fusionx.frontend.functions import has_function_body, local_functions
from tvm_fusionx.frontend.node import ASK_SUPPORT
from tvm_fusionx.frontend.schemas import schema_of
from tvm_fusionx.frontend.structures import STRUCTURES

# Operators left to TVM's own converter, each with the newest definition it was checked against.
TVM_CONVERTERS: dict[str, int] = {
    "ReverseSequence": 28,
    "ai.onnx.preview.training.Adagrad": 1,
}

# Operators whose result is known although their input is not: shapes are static here.
KNOWN_FROM_TYPES = frozenset(
    {"EyeLike", "RandomNormalLike", "RandomUniformLike", "SequenceLength", "Shape", "Size"}
)


def qualified_name(proto: Any) -> str:
    """Return a node's operator, with its domain in front when that is not ONNX's own."""
    is_standard = proto.domain in ("", "ai.onnx")
    return str(proto.op_type) if is_standard else f"{proto.domain}.{proto.op_type}"


def how_translated(proto: Any, version: int) -> str | None:
    """Return ``"converter"``, ``"function"`` or ``"tvm"``, or None where there is no way.

    Our converter comes first, then ONNX's own definition by simpler operators, then TVM's.
    """
    name = qualified_name(proto)
    if name in RANDOM_OPERATORS:
        return None
    if name in CONVERTERS and version <= CONVERTERS[name].through:
        return "converter"
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    if has_function_body(proto.op_type, domain, version):
        return "function"
    if name in TVM_CONVERTERS and (domain or version <= TVM_CONVERTERS[name]):
        return "tvm"
    return None


def _subgraphs(proto: Any) -> list[Any]:
    return [a.g for a in proto.attribute if a.HasField("g")]


def _nodes_run_on_data(graph: Any, data: set[str]) -> Iterator[Any]:
    """Yield the nodes, subgraphs' too, that need an input's numbers; `data` names those."""
    for proto in graph.node:
        inner = _subgraphs(proto)
        if not inner and not any(name in data for name in proto.input):
            if qualified_name(proto) in RANDOM_OPERATORS:
                yield proto
            continue
        yield proto
        for subgraph in inner:
            yield from _nodes_run_on_data(subgraph, data | {info.name for info in subgraph.input})
        if qualified_name(proto) not in KNOWN_FROM_TYPES:
            data.update(proto.output)


def check_operators(model: Any, opsets: Mapping[str, int], run_time_inputs: Iterable[str]) -> None:
    """Refuse a model that uses operators without a translation, naming all of them and their nodes.

    Raises
    ------
    UnsupportedOperatorError
        Listing every such operator with the nodes that use it.
    """
    users: dict[str, list[str]] = {}
    functions = local_functions(model)
    for proto in _nodes_run_on_data(model.graph, set(run_time_inputs)):
        name = qualified_name(proto)
        if name in STRUCTURES or (proto.domain, proto.op_type) in functions:
            continue
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        version = opsets.get(domain, 1)
        schema = schema_of(proto.op_type, domain, version)
        if schema is not None:
            version = schema.since_version
        elif defs.has(proto.op_type, domain):
            name = f"{name} (not in opset {version})"
        if how_translated(proto, version) is None:
            label = name if version == 1 or domain else f"{name}-{version}"
            users.setdefault(label, []).append(proto.name or f"output {proto.output[0]!r}")
    if users:
        listed = "; ".join(f"{name} in {', '.join(nodes)}" for name, nodes in sorted(users.items()))
        raise UnsupportedOperatorError(
            f"model {model.graph.name!r}",
            expected="operators that can be translated",
            found=f"{len(users)} without a translation: {listed}",
            next_step=ASK_SUPPORT,
        )
