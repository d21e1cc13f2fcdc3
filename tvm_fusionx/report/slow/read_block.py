"""A block of a report as a Relay function again, each part checked before TVM sees it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx._tvm.type_errors import heard_diagnostics, plain_message
from tvm_fusionx.ecg import Graph, to_relay
from tvm_fusionx.ecg.graph import Value
from tvm_fusionx.ecg.relay_types import infer_types
from tvm_fusionx.ecg.to_relay import BLOCK_NAME, is_inline_constant
from tvm_fusionx.ecg.types import TensorType
from tvm_fusionx.operators import MAPPING_TYPES
from tvm_fusionx.report.slow import bounds
from tvm_fusionx.report.slow.block_json import CALL, OPERAND, SCALAR, why_not_tellable
from tvm_fusionx.report.slow.fields import Fields, damaged, integer, items, text

SPLIT = "split"
SECTIONS = "indices_or_sections"

# Where numbers were withheld: away from zero, no division by it, no logarithm of it.
LEAST, MOST = 0.5, 1.5


@dataclass(frozen=True)
class Operand:
    """What a block reads.

    Attributes
    ----------
    type
        Shape and dtype.
    is_constant
        Whether it is a weight and no result of another block.
    values
        Its numbers, where it is a short list of indices that stayed in the report.
    """

    type: TensorType
    is_constant: bool
    values: tuple[int, ...] | None


@dataclass(frozen=True)
class ReadBlock:
    """A block of a report.

    Attributes
    ----------
    function
        Marked ``Primitive``; typed.
    operands
        Its parameters in order.
    graph
        The same block as a graph.
    operators
        Names of its operators in the order of the calls.
    """

    function: relay.Function
    operands: tuple[Operand, ...]
    graph: Graph
    operators: tuple[str, ...]


def read_block(content: Any, where: str, seed: int = 0) -> ReadBlock:
    """Return the block that :func:`block_json` told.

    Operators of our own are known in a scope of ``fx.lowering``. Attributes that are of no sense
    can end the process in TVM's own checks, by a division by zero for one: of a stranger's file,
    :func:`tvm_fusionx.report.slow.tried_apart.try_apart` asks another process first.

    Parameters
    ----------
    where
        What errors call it.
    seed
        Of the numbers that stand for scalars which were withheld.

    Raises
    ------
    ReportFileError
        Anything in it is of another kind or larger than it may be, or TVM's types do not fit.
    """
    return _Reader(Fields.of(content, where), seed).read()


class _Reader:
    def __init__(self, fields: Fields, seed: int) -> None:
        self.fields = fields
        self.where = fields.where
        self.graph = Graph(infer_types)
        self.generator = np.random.default_rng(seed)
        self.scalars: list[Value] = []
        self.results: list[tuple[Value, ...]] = []

    def read(self) -> ReadBlock:
        operands = self._operands()
        self.scalars = [
            self._scalar(entry, f"{self.where}, scalar {place}")
            for place, entry in enumerate(self.fields.items("scalars", bounds.MOST_OPERANDS))
        ]
        calls = self.fields.items("calls", bounds.MOST_CALLS)
        operators = tuple(
            self._call(Fields.of(call, f"{self.where}, call {place}"))
            for place, call in enumerate(calls)
        )
        self._outputs()
        held = sum(operand.type.bytes for operand in operands)
        _check_bytes(held + sum(value.type.bytes for value in self.graph.outputs), self.where)
        return ReadBlock(self._function(), operands, self.graph, operators)

    def _operands(self) -> tuple[Operand, ...]:
        operands = []
        for place, entry in enumerate(self.fields.items("operands", bounds.MOST_OPERANDS)):
            fields = Fields.of(entry, f"{self.where}, operand {place}")
            type_ = _type(fields["type"], fields.place("type"))
            operand = Operand(type_, fields.flag("is_constant"), _values(fields, type_))
            if operand.values is not None and not operand.is_constant:
                raise damaged(fields.place("values"), "none but of a constant", "values")
            operands.append(operand)
            self.graph.input(f"p{place}", type_)
        if all(operand.is_constant for operand in operands):
            raise damaged(f"{self.where}, operands", "one that is no constant", "none")
        return tuple(operands)

    def _scalar(self, entry: Any, where: str) -> Value:
        dtype, told = _pair(entry, where)
        if dtype == "bool" and isinstance(told, bool):
            number: Any = told
        elif dtype in ("int32", "int64"):
            most = int(np.iinfo(dtype).max)
            number = integer(told, where, -most - 1, most)
        elif dtype in ("float32", "float64"):
            number = self._float(told, where)
        else:
            raise damaged(where, "a bool, an int32, int64, float32 or float64", f"{dtype!r}"[:60])
        value = self.graph.constant(number, dtype)
        assert is_inline_constant(value), value
        return value

    def _float(self, told: Any, where: str) -> float:
        if told is None:
            return float(self.generator.uniform(LEAST, MOST))
        if told in ("inf", "-inf"):
            return float(told)
        is_number = isinstance(told, (int, float)) and not isinstance(told, bool)
        if not is_number or not abs(told) <= MOST_SCALAR:
            raise damaged(where, "a number, 'inf', '-inf' or null", f"{told!r}"[:60])
        return float(told)

    def _call(self, fields: Fields) -> str:
        op = fields.text("op", bounds.MOST_TEXT)
        refused = why_not_tellable(op) or (None if op in MAPPING_TYPES else "an unknown operator")
        if refused is not None:
            raise damaged(fields.place("op"), "an operator that templates serve", refused[:200])
        reads = fields.items("reads", bounds.MOST_OPERANDS)
        operands = [self._value(place, fields.place("reads")) for place in reads]
        grouping = _grouping(fields, len(operands))
        told = fields.items("results", bounds.MOST_RESULTS)
        results = [_type(each, fields.place("results")) for each in told]
        attributes = _attributes(fields)
        sections = attributes.get(SECTIONS) if op == SPLIT else None
        if isinstance(sections, int) and sections != len(results):
            raise damaged(fields.place(SECTIONS), f"{len(results)} as results", str(sections))
        with heard_diagnostics() as heard:
            try:
                node = self.graph.call_node(op, operands, attributes, grouping=grouping)
            except Exception as error:  # whatever TVM or Python make of attributes and types
                found = plain_message(error, heard)[:200]
                raise damaged(fields.where, f"a call of {op} that types fit", found) from error
        if list(node.outputs) != results:
            found = ", ".join(map(str, node.outputs))[:200]
            raise damaged(fields.place("results"), ", ".join(map(str, results))[:200], found)
        self.results.append(tuple(node))
        return op

    def _value(self, place: Any, where: str) -> Value:
        entry = items(place, where, 3)
        kind = entry[0] if entry else None
        if kind == CALL and len(entry) == 3:
            results = self.results[integer(entry[1], where, 0, len(self.results) - 1)]
            return results[integer(entry[2], where, 0, len(results) - 1)]
        if kind == OPERAND and len(entry) == 2:
            return self.graph.inputs[integer(entry[1], where, 0, len(self.graph.inputs) - 1)][0]
        if kind == SCALAR and len(entry) == 2:
            return self.scalars[integer(entry[1], where, 0, len(self.scalars) - 1)]
        raise damaged(where, f"{OPERAND}, {SCALAR} or {CALL}, and a place", f"{kind!r}"[:60])

    def _outputs(self) -> None:
        told = self.fields.items("outputs", bounds.MOST_RESULTS)
        outputs = tuple(self._value(place, self.fields.place("outputs")) for place in told)
        self.graph.returns_tuple = self.fields.flag("is_tuple")
        if not outputs or not (self.graph.returns_tuple or len(outputs) == 1):
            raise damaged(self.fields.place("outputs"), "one, or a tuple", f"{len(outputs)}")
        if not all(value.node.is_call for value in outputs):
            raise damaged(self.fields.place("outputs"), "results of calls", "what the block reads")
        self.graph.outputs = outputs

    def _function(self) -> relay.Function:
        function = to_relay(self.graph)
        # Each call's types were inferred and compared before: together they fit.
        typed = relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"]
        return typed.with_attr("Primitive", tvm.tir.IntImm("int32", 1)).with_attr(
            BLOCK_NAME, "replayed"
        )


# Of a float32.
MOST_SCALAR = float(np.finfo("float32").max)


def _pair(entry: Any, where: str) -> tuple[Any, Any]:
    pair = items(entry, where, 2)
    if len(pair) != 2:
        raise damaged(where, "a dtype and what belongs to it", f"{len(pair)} items")
    return pair[0], pair[1]


def _type(entry: Any, where: str) -> TensorType:
    dtype, told = _pair(entry, where)
    if not isinstance(dtype, str) or dtype not in bounds.DTYPES:
        raise damaged(where, f"one of {', '.join(sorted(bounds.DTYPES))}", f"{dtype!r}"[:60])
    axes = items(told, where, bounds.MOST_AXES)
    shape = tuple(integer(extent, where, 1, bounds.LARGEST_EXTENT) for extent in axes)
    type_ = TensorType(shape, dtype)
    _check_bytes(type_.bytes, where)
    return type_


def _check_bytes(held: int, where: str) -> None:
    if held > bounds.MOST_TENSOR_BYTES:
        raise damaged(where, f"{bounds.MOST_TENSOR_BYTES} bytes at most", f"{held} bytes")


def _values(fields: Fields, type_: TensorType) -> tuple[int, ...] | None:
    if fields["values"] is None:
        return None
    told = fields.items("values", bounds.MOST_KEPT_NUMBERS)
    where = fields.place("values")
    if "int" not in type_.dtype or len(told) != math.prod(type_.shape):
        raise damaged(where, f"the whole numbers of a {type_}", f"{len(told)} values")
    range_ = np.iinfo(type_.dtype)
    return tuple(integer(each, where, int(range_.min), int(range_.max)) for each in told)


def _grouping(fields: Fields, count: int) -> tuple[int | None, ...]:
    told = fields.items("grouping", bounds.MOST_OPERANDS)
    where = fields.place("grouping")
    grouping = tuple(
        None if group is None else integer(group, where, 0, bounds.MOST_OPERANDS) for group in told
    )
    if sum(1 if group is None else group for group in grouping) != count:
        raise damaged(where, f"groups of {count} operands", f"{list(grouping)}"[:60])
    return grouping


def _attributes(fields: Fields) -> dict[str, Any]:
    told = Fields.of(fields["attributes"], fields.place("attributes"))
    if len(told.content) > bounds.MOST_ATTRIBUTES:
        raise damaged(told.where, f"{bounds.MOST_ATTRIBUTES} at most", f"{len(told.content)}")
    return {
        text(name, told.where, bounds.MOST_TEXT): _attribute(value, told.place(name[:60]))
        for name, value in told.content.items()
    }


def _attribute(value: Any, where: str, depth: int = 0) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return integer(value, where, -bounds.LARGEST_INTEGER, bounds.LARGEST_INTEGER)
    if isinstance(value, float):
        return value
    if isinstance(value, str):
        return text(value, where, bounds.MOST_TEXT)
    if isinstance(value, dict) and value.get("number") in ("inf", "-inf", "nan"):
        return float(value["number"])
    if depth == bounds.MOST_ATTRIBUTE_DEPTH:
        raise damaged(where, f"lists in {depth} levels at most", "more")
    inner = items(value, where, bounds.MOST_ATTRIBUTE_NUMBERS)
    if None in inner:
        raise damaged(where, "a list of numbers, texts or lists", "null in it")
    return tuple(_attribute(each, where, depth + 1) for each in inner)
