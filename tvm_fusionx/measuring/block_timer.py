"""Time one block through the real build, and remember the answer."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from tvm_fusionx.ecg import Graph, to_relay
from tvm_fusionx.ecg.graph import Node, Value
from tvm_fusionx.ecg.relay_types import infer_types
from tvm_fusionx.ecg.to_relay import RelayBlock
from tvm_fusionx.fusion.block_key import block_key, signature, steering_constants
from tvm_fusionx.fusion.border import Border, border_of
from tvm_fusionx.fusion.profile_database import Profile, ProfileDatabase, Setting
from tvm_fusionx.layout import compute_in_single, most_narrow_uses
from tvm_fusionx.lowering import lowering
from tvm_fusionx.measuring.places import setting_of
from tvm_fusionx.schedules import resolve_target

logger = logging.getLogger(__name__)

REPEATS = 7
# One timed repeat runs the kernel as often as fills this; far above the clock's resolution.
REPEAT_MILLISECONDS = 3
MICROSECONDS = 1e6
BLOCK = "measured_block"


@dataclass(frozen=True)
class BlockTimer:
    """Answers what a block takes: from the database, else from the device.

    Parameters
    ----------
    target
        What it is built for.
    database
        Where answers are kept.
    time_module
        Runs a built block on inputs and returns microseconds; this machine by default.
    setting
        Where `time_module` runs; this machine by default.
    """

    target: Any
    database: ProfileDatabase
    time_module: Callable[[Any, tvm.IRModule], float] | None = None
    setting: Setting | None = None

    def __call__(self, graph: Graph, nodes: tuple[Node, ...]) -> float:
        """Return the microseconds of one kernel of `nodes`, or infinity where it cannot run."""
        border = border_of(graph, nodes, frozenset(graph.outputs))
        setting = self.setting or setting_of(self.target)
        key = block_key(nodes, border)
        known = self.database.find(key, setting)
        if known is None:
            asked = Profile(key, setting, signature(nodes, border), math.inf)
            known = self._measured(asked, nodes, border)
            self.database.add(known)
        return known.microseconds

    def _measured(self, asked: Profile, nodes: tuple[Node, ...], border: Border) -> Profile:
        failure = ""
        microseconds = math.inf
        try:
            mod = as_it_will_run(block_module(nodes, border), self.target)
            with lowering(self.target):
                library = relay.build(mod, resolve_target(self.target))
            microseconds = (self.time_module or time_library)(library, mod)
        except Exception as error:  # whatever TVM raises is the answer
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            failure = f"{type(error).__name__}: {lines[-1] if lines else 'no message'}"
            logger.info("a block cannot be measured: %s: %s", asked.signature, failure)
        return replace(asked, microseconds=microseconds, failure=failure, measured_at=time.time())


def as_it_will_run(mod: tvm.IRModule, target: Any) -> tvm.IRModule:
    """Return a module of a block whose arithmetic is that of the build: float32, not halves."""
    narrowest = compute_in_single(mod["main"], most_narrow_uses(resolve_target(target)))
    return relay.transform.InferType()(tvm.IRModule.from_expr(narrowest))


def block_module(nodes: Sequence[Node], border: Border) -> tvm.IRModule:
    """Return a module of one block alone, its operands parameters and its results the outputs.

    Constants that say how long a kernel's loops run stay what they are.
    """
    graph = Graph(infer_types)
    steering = {value for node in nodes for value in steering_constants(node)}
    known: dict[Value, Value] = {}
    made = []
    for node in nodes:
        for value in node.operands:
            if value in known:
                continue
            if value in border.reads and value not in steering:
                # Not p0, p1: so TVM calls the constants of a build.
                known[value] = graph.input(f"operand{len(graph.inputs)}", value.type)
            else:
                known[value] = graph.constant(value.array)
        copy = graph.call_node(
            node.op,
            [known[value] for value in node.operands],
            node.attrs,
            grouping=node.grouping,
            outputs=node.outputs,
            returns_tuple=node.returns_tuple,
            payload=node.payload,
        )
        made.append(copy)
        known.update(zip(node, copy, strict=True))
    graph.outputs = tuple(known[value] for value in border.outputs)
    graph.returns_tuple = len(graph.outputs) > 1
    calls = tuple(dict.fromkeys(made))
    block = RelayBlock(BLOCK, calls)
    return relay.transform.InferType()(tvm.IRModule.from_expr(to_relay(graph, [block])))


def time_library(library: Any, mod: tvm.IRModule) -> float:
    """Return the median microseconds of a run of a library of one block."""
    device = tvm.cpu(0)
    module = graph_executor.GraphModule(library["default"](device))
    for index, values in enumerate(example_inputs(mod)):
        module.set_input(index, tvm.nd.array(values, device))
    timer = module.module.time_evaluator(
        "run", device, number=1, repeat=REPEATS, min_repeat_ms=REPEAT_MILLISECONDS
    )
    return float(np.median(timer().results)) * MICROSECONDS


def example_inputs(mod: tvm.IRModule) -> list[np.ndarray]:
    """Return an array for each parameter of ``main`` that any operator may be given."""
    generator = np.random.default_rng(0)
    arrays = []
    for param in mod["main"].params:
        type_ = param.checked_type
        shape = [int(extent) for extent in type_.shape]
        values = np.zeros(shape, type_.dtype)  # integers are indices: zero is always valid
        if "float" in type_.dtype:
            # Away from zero: no division by it, no logarithm of it, no slow subnormal numbers.
            values = generator.uniform(0.5, 1.5, shape).astype(type_.dtype)
        arrays.append(values)
    return arrays
