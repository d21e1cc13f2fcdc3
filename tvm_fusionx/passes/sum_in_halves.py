"""Sum up products of halves in halves, a few at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.errors import InputError, TargetError
from tvm_fusionx.layout import sum_in_halves
from tvm_fusionx.passes.graph_pass import is_data_flow
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.schedules import resolve_target

# Of a chain: what its widening and addition cost is shared by so many products.
TERMS = 32

# Of a matrix product, whose sums are longer. MiniLM takes 286.0 million instructions of a
# Cortex-A76 in chains of 32, its largest difference 1.1e-3, and 257.4 with 1.9e-3 in these.
MATRIX_TERMS = 96

# Ranges of results (`layout.value_range`) allow for what chains of so many products round.
MOST_TERMS = 96


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.SumInHalves")
@dataclass(frozen=True)
class SumInHalves:
    """Let products of halves be summed up in halves, up to some terms, then in float32.

    After :class:`ComputeInFloat32`. Weights become halves. A sum is off by at most its terms times
    2^-11 of its products' magnitudes, and no finite operand makes it infinite
    (:mod:`tvm_fusionx.layout.half_sums`).

    Before::

        fn (%p0: float16, %p1, Primitive=1) { nn.contrib_conv2d_NCHWc(cast(%p0, float32), %p1) }

    After::

        fn (%p0: float16, %p1: float16, Primitive=1) {
          %0 = fusionx.half_terms(cast(%p1, float32), half_terms=32);
          nn.contrib_conv2d_NCHWc(cast(%p0, float32), %0)
        }
    """

    target: Any
    """What the blocks are for: a CPU with arithmetic of halves, as Arm's since Armv8.2."""

    terms: int = TERMS
    """Most products of a sum of halves, of a convolution."""

    matrix_terms: int = MATRIX_TERMS
    """The same, of a matrix product."""

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with products that are summed up in halves.

        Raises
        ------
        TargetError
            The target has no arithmetic of halves.
        InputError
            There are no terms, or more than :data:`MOST_TERMS`.
        """
        for name, terms in (("terms", self.terms), ("matrix_terms", self.matrix_terms)):
            if not 1 <= terms <= MOST_TERMS:
                raise InputError(
                    name,
                    expected=f"a number from 1 to {MOST_TERMS}",
                    found=str(terms),
                    next_step="Give how many products a sum of halves has at most.",
                )
        cpu = cpu_of_halves(resolve_target(self.target))
        mod = relay.transform.InferType()(mod)
        out = tvm.IRModule(dict(mod.functions.items()), mod.type_definitions, attrs=mod.attrs)
        for variable, function in mod.functions.items():
            if is_data_flow(function):
                out[variable] = sum_in_halves(function, cpu, self.terms, self.matrix_terms)
        return relay.transform.InferType()(out)


def cpu_of_halves(target: tvm.target.Target) -> Cpu:
    """Return the CPU of a target; raise TargetError where it does not add halves."""
    cpu = describe_cpu(target) if is_cpu(target) else None
    if cpu is None or not cpu.adds_halves:
        raise TargetError(
            "precision",
            expected="a core with arithmetic of halves and multiply-adds by lane (Armv8.2)",
            found=str(target),
            next_step='Name such a core (-mcpu=cortex-a76, or -mattr=+fullfp16), or precision="'
            'float16", which sums in float32.',
        )
    return cpu
