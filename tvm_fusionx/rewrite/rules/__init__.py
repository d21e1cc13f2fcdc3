"""The rule book: one file per law and subject, in the order rules of equal gain are preferred."""

from tvm_fusionx.rewrite.rule import Rule
from tvm_fusionx.rewrite.rules import (
    chains,
    composites,
    exponents,
    factors,
    kernels,
    limits,
    logic,
    matrices,
    movement,
    pools,
    preceding,
    products,
    reductions,
    scales,
    structural,
    sums,
    totals,
    weights,
)

ALL_RULES: tuple[Rule, ...] = (
    *structural.RULES,
    *composites.RULES,
    *factors.RULES,
    *products.RULES,
    *exponents.RULES,
    *sums.RULES,
    *limits.RULES,
    *logic.RULES,
    *reductions.RULES,
    *totals.RULES,
    *pools.RULES,
    *matrices.RULES,
    *movement.RULES,
    *chains.RULES,
    *kernels.RULES,
    *weights.RULES,
    *scales.RULES,
    *preceding.RULES,
)
