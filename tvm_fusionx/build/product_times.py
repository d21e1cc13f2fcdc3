"""What a layer of a quantized model takes on integers and on floats, measured on this machine.

A layer is a product, what dequantizes for it, and what follows it element by element up to the next
quantization: it reads bytes and writes bytes, as in the model. It is built twice, as a program of
its own, by the same passes.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.ecg import Graph, to_relay
from tvm_fusionx.ecg.graph import Node, Value
from tvm_fusionx.ecg.relay_types import infer_types
from tvm_fusionx.fusion.classify import is_elementwise
from tvm_fusionx.fusion.profile_database import Profile, ProfileDatabase, Setting
from tvm_fusionx.lowering import lowering
from tvm_fusionx.measuring.block_timer import time_library
from tvm_fusionx.measuring.places import setting_of
from tvm_fusionx.passes import RewriteQuantized
from tvm_fusionx.rewrite.quantized import BYTES, MOVES, QuantizedData

logger = logging.getLogger(__name__)

INTEGERS, FLOATS = "integers", "floats"

Order = Callable[[RewriteQuantized], Any]
"""From the pass that chooses integers to all passes of a build, as one."""


@dataclass(frozen=True)
class ProductTimer:
    """Tells why a product is faster on floats, by measuring both; a `WhySlower`.

    Parameters
    ----------
    target
        What is built for; this machine runs it.
    database
        Where answers are kept.
    order
        The passes of the build that asks.
    time_module
        Runs a built layer and returns microseconds.
    setting
        Where `time_module` runs; this machine by default.
    """

    target: Any
    database: ProfileDatabase
    order: Order
    time_module: Callable[[Any, tvm.IRModule], float] = time_library
    setting: Setting | None = None

    def __call__(self, graph: Graph, node: Node, data: QuantizedData) -> str | None:
        """Return why floats are faster for `node`, with both times, or None."""
        mod = layer_module(graph, node)
        integers, floats = (self._microseconds(mod, node, kind) for kind in (INTEGERS, FLOATS))
        if integers <= floats:
            return None
        if math.isinf(integers):
            return "its program of integers cannot be built or run here"
        return f"{integers:.1f} us measured on integers, and {floats:.1f} us on floats"

    def _microseconds(self, mod: tvm.IRModule, node: Node, kind: str) -> float:
        setting = self.setting or setting_of(self.target)
        key = f"{tvm.ir.structural_hash(mod):x}-{kind}"
        known = self.database.find(key, setting)
        if known is None:
            types = " x ".join(str(value.type) for value in node.operands)
            asked = Profile(key, setting, f"layer on {kind}: {node.op} {types}", math.inf)
            known = self._measured(asked, mod, kind)
            self.database.add(known)
        return known.microseconds

    def _measured(self, asked: Profile, mod: tvm.IRModule, kind: str) -> Profile:
        microseconds, failure = math.inf, ""
        try:
            passes = self.order(RewriteQuantized(self.target, _ALL_ON[kind]))
            with lowering(self.target):
                library = relay.build(passes(mod), self.target)
            microseconds = self.time_module(library, mod)
        except Exception as error:  # whatever TVM raises is the answer
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            failure = f"{type(error).__name__}: {lines[-1] if lines else 'no message'}"
            logger.info("a layer cannot be measured: %s: %s", asked.signature, failure)
        return replace(asked, microseconds=microseconds, failure=failure, measured_at=time.time())


def _integers(graph: Graph, node: Node, data: QuantizedData) -> None:
    """Take integers wherever there is a kernel."""


def _floats(graph: Graph, node: Node, data: QuantizedData) -> str:
    """Take floats everywhere."""
    return "floats are measured"


_ALL_ON = {INTEGERS: _integers, FLOATS: _floats}


def layer_module(graph: Graph, node: Node) -> tvm.IRModule:
    """Return a module of a product alone, from bytes to bytes where a quantization follows it.

    Parameters
    ----------
    graph
        A graph of a quantized model.
    node
        One of its products of dequantized integers.
    """
    members = set(_before(node)) | {node}
    result = node[0]
    while True:
        following = _following(graph, result)
        if following is None:
            break
        members.add(following)
        result = following[0]
    made = Graph(infer_types)
    known: dict[Value, Value] = {}
    for member in (each for each in graph.calls() if each in members):
        for value in member.operands:
            if value not in known:
                is_input = not value.is_constant
                known[value] = (
                    made.input(f"p{len(made.inputs)}", value.type)
                    if is_input
                    else made.constant(value.array)
                )
        known[member[0]] = made.call(
            member.op,
            [known[value] for value in member.operands],
            member.attrs,
            grouping=member.grouping,
            name=member.name,
        )
    made.outputs = (known[result],)
    return relay.transform.InferType()(tvm.IRModule.from_expr(to_relay(made)))


def _before(node: Node) -> list[Node]:
    """Return the dequantizations of both operands, and the moves behind them."""
    found = []
    for value in node.operands:
        above = value.node
        while above.op in MOVES:
            found.append(above)
            above = above.operands[0].node
        found.append(above)
    return found


def _following(graph: Graph, value: Value) -> Node | None:
    """Return the elementwise call that alone reads a value of floats, or None."""
    if value.dtype in BYTES or not graph.has_single_user(value):
        return None
    (user,) = graph.users(value.node)
    keeps = len(user.outputs) == 1 and user.outputs[0].shape == value.shape
    return user if keeps and is_elementwise(user) else None
