"""Multiply the integers of a quantized model as integers, or read them as they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm

from tvm_fusionx.ecg import Graph, to_relay
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.expressions.look_up import register_look_up
from tvm_fusionx.expressions.round_even import register_rounding
from tvm_fusionx.layout.integer_costs import why_slower_on_integers
from tvm_fusionx.layout.integers import why_not_integers
from tvm_fusionx.layout.packed_products import pack_products
from tvm_fusionx.layout.pair_costs import why_pair_slower_on_integers
from tvm_fusionx.passes.graph_pass import transform_graphs
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.rewrite.byte_functions import look_up_bytes
from tvm_fusionx.rewrite.dequantized_constants import unpack_constants
from tvm_fusionx.rewrite.integer_bias import biases_into_sums
from tvm_fusionx.rewrite.integer_operators import multiply_bytes
from tvm_fusionx.rewrite.moves_around import merge_moves
from tvm_fusionx.rewrite.quantized import (
    IntegerTypes,
    ProductChoice,
    QuantizedData,
    WhySlower,
    is_of_activations,
    multiply_integers,
)
from tvm_fusionx.rewrite.quantized_pairs import multiply_activations
from tvm_fusionx.rewrite.requantized import (
    drop_requantizations,
    drop_scales,
    pool_integers,
    round_by_instruction,
)
from tvm_fusionx.rewrite.shifted_bytes import shift_in_quantizations
from tvm_fusionx.schedules import resolve_target

# Moves that undo each other stand between what the other steps look for side by side.
# Rounding is one call after the first step.
STEPS = (round_by_instruction, merge_moves, pool_integers, drop_requantizations, drop_scales)


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

    why_slower: WhySlower | None = None
    """Returns why a product is faster as one of floats, or None; an estimate from the processor's
    rates when None."""

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with products of integers."""
        return rewrite_quantized(mod, self.target, self.why_slower)[0]


def rewrite_quantized(
    mod: Any, target: Any, why_slower: WhySlower | None = None
) -> tuple[Any, list[ProductChoice]]:
    """Return what :class:`RewriteQuantized` makes of a module, and what became of each product.

    Parameters
    ----------
    mod
        Relay module.
    target, why_slower
        As for the pass.
    """
    resolved = resolve_target(target)
    cpu = describe_cpu(resolved) if is_cpu(resolved) else None
    register_rounding()
    register_look_up()
    choices: list[ProductChoice] = []

    def rewrite(_: str, graph: Graph) -> Any:
        changes = 0
        if cpu is not None:
            changes = sum(step(graph) for step in STEPS)
            changes += look_up_bytes(graph) if cpu.byte_tables is not None else 0
            made = _multiply(graph, cpu, why_slower)
            choices.extend(made)
            changes += sum(choice.reason is None for choice in made)
            changes += biases_into_sums(graph)
            # Elsewhere a quantization has bounds, which cost the same wherever they lie.
            changes += shift_in_quantizations(graph) if cpu.rounding is not None else 0
            changes += pack_products(graph, cpu)
        return to_relay(graph) if changes + unpack_constants(graph) else None

    return transform_graphs(mod, rewrite), choices


def _multiply(graph: Graph, cpu: Cpu, why_slower: WhySlower | None) -> list[ProductChoice]:
    if cpu.dot is None:
        return []

    def estimate(_: Graph, node: Node, data: QuantizedData) -> str | None:
        if is_of_activations(node):
            return why_pair_slower_on_integers(node, cpu)
        return why_slower_on_integers(node, data, cpu)

    types = IntegerTypes(cpu.dot.data, cpu.dot.weights, cpu.word_dot is not None, cpu.adds_in_words)
    judge = estimate if why_slower is None else why_slower

    def why_not(node: Node) -> str | None:
        return why_not_integers(node, cpu)

    # Products of 32-bit integers are slower always: nobody is asked. They come first, for what
    # dequantized products become are products of integers too.
    made = multiply_bytes(graph, types, why_not)
    made += multiply_activations(graph, types, why_not, judge)
    return made + multiply_integers(graph, types, why_not, judge)
