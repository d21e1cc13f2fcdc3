"""The rule book: one file per law, and the order in which rules of equal gain are preferred."""

from tvm_fusionx.rewrite.rule import Rule
from tvm_fusionx.rewrite.rules import associative, commutative, distributive, structural, weights

ALL_RULES: tuple[Rule, ...] = (
    *structural.RULES,
    *distributive.RULES,
    *associative.RULES,
    *commutative.RULES,
    *weights.RULES,
)
