"""Multiply the integers of a quantized model as integers, or read them as they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm

from tvm_fusionx.ecg import Graph, to_relay
from tvm_fusionx.expressions.look_up import register_look_up
from tvm_fusionx.expressions.round_even import register_rounding
from tvm_fusionx.layout.integers import why_not_integers
from tvm_fusionx.layout.packed_products import pack_products
from tvm_fusionx.passes.graph_pass import transform_graphs
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.rewrite.byte_functions import look_up_bytes
from tvm_fusionx.rewrite.dequantized_constants import unpack_constants
from tvm_fusionx.rewrite.quantized import (
    IntegerTypes,
    drop_requantizations,
    multiply_integers,
    pool_integers,
    round_by_instruction,
)
from tvm_fusionx.schedules import resolve_target


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.RewriteQuantized")
@dataclass(frozen=True)
class RewriteQuantized:
    """Multiply dequantized integers as integers, where the target has an instruction for it.

    Where weights alone are integers, and few rows are multiplied by them, they stay as they are in
    memory and become floats in registers (:mod:`tvm_fusionx.layout.packed_products`). Others become
    floats here.

    Comes before `RewriteGraph`, whose laws would move scales into weights.

    Before::

        nn.dense(qnn.dequantize(%x, s, z), qnn.dequantize(%w, t, 0))

    After::

        %0 = nn.dense(%x, %w, out_dtype="int32");
        multiply(cast(subtract(%0, z * sum(%w)), "float32"), s * t)
    """

    target: Any
    """What the products run on; on another target than a CPU they are products of floats."""

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with products of integers."""
        target = resolve_target(self.target)
        cpu = describe_cpu(target) if is_cpu(target) else None
        register_rounding()
        register_look_up()

        def rewrite(_: str, graph: Graph) -> Any:
            changes = 0
            if cpu is not None:
                steps = (round_by_instruction, pool_integers, drop_requantizations)
                changes = sum(step(graph) for step in steps)
                changes += look_up_bytes(graph) if cpu.byte_tables is not None else 0
                changes += _multiply(graph, cpu) + pack_products(graph, cpu)
            return to_relay(graph) if changes + unpack_constants(graph) else None

        return transform_graphs(mod, rewrite)


def _multiply(graph: Graph, cpu: Cpu) -> int:
    if cpu.dot is None:
        return 0
    types = IntegerTypes(cpu.dot.data, cpu.dot.weights)
    return multiply_integers(graph, types, lambda node: why_not_integers(node, cpu))
