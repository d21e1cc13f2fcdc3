"""The rule book: one file per law and subject, in the order rules of equal gain are preferred."""

from tvm_fusionx.rewrite.rule import Rule
from tvm_fusionx.rewrite.rules import (
    exponents,
    factors,
    limits,
    logic,
    matrices,
    movement,
    pools,
    products,
    reductions,
    structural,
    sums,
    weights,
)

ALL_RULES: tuple[Rule, ...] = (
    *structural.RULES,
    *factors.RULES,
    *products.RULES,
    *exponents.RULES,
    *sums.RULES,
    *limits.RULES,
    *logic.RULES,
    *reductions.RULES,
    *pools.RULES,
    *matrices.RULES,
    *movement.RULES,
    *weights.RULES,
)
