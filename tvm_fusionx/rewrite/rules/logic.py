"""Laws of bits, masks and choices: shifts, and/or, comparisons, where."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm_fusionx.ecg.graph import Value
from tvm_fusionx.rewrite.conditions import scalars
from tvm_fusionx.rewrite.rule import Domain, Law, NumericClass, rule
from tvm_fusionx.rewrite.rules.families import UNARY
from tvm_fusionx.rewrite.term import Term, one_of, op

exact = partial(rule, numeric_class=NumericClass.EXACT)
associative = partial(exact, law=Law.ASSOCIATIVE)
distributive = partial(exact, law=Law.DISTRIBUTIVE)
commutative = partial(exact, law=Law.COMMUTATIVE)

AB: dict[str, Any] = {"a": (4, 8), "b": (4, 8)}
CHOICE: dict[str, Any] = {"is_c": (4, 8), **AB}
MASKS: dict[str, Any] = {"is_a": (4, 8), "is_b": (4, 8)}
_unary = one_of("f", UNARY)
_bitwise = one_of("f", ["bitwise_and", "bitwise_or", "bitwise_xor"])
_symmetric = one_of("f", ["add", "maximum", "minimum", "multiply"])
_ordered = one_of("g", ["divide", "subtract"])

_BITS_OF: dict[str, Any] = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def _why_not_within_bits(a: Value, k: Value, m: Value) -> str | None:
    if not (k.is_constant and m.is_constant and k.type.elements == m.type.elements == 1):
        return "a shift is not one constant number"
    first, second = int(k.array.flat[0]), int(m.array.flat[0])
    if first < 0 or second < 0 or first + second >= _BITS_OF.get(a.dtype, 0):
        return "together the shifts reach past the last bit"
    return None


@associative(
    lhs=lambda a, k, m: op.left_shift(op.left_shift(a, k), m),
    domain=Domain.INTEGER,
    when=_why_not_within_bits,
    a=(4, 8),
    k=2,
    m=3,
)
def merge_left_shifts(a: Term, k: Term, m: Term) -> Term:
    """(a << k) << m -> a << (k + m)."""
    return op.left_shift(a, k + m)


@associative(
    lhs=lambda a, k, m: op.right_shift(op.right_shift(a, k), m),
    domain=Domain.INTEGER,
    when=_why_not_within_bits,
    a=(4, 8),
    k=2,
    m=3,
)
def merge_right_shifts(a: Term, k: Term, m: Term) -> Term:
    """(a >> k) >> m -> a >> (k + m)."""
    return op.right_shift(a, k + m)


@associative(
    lhs=lambda a, k, m: _bitwise(_bitwise(a, k), m),
    domain=Domain.INTEGER,
    when=scalars("k", "m"),
    a=(4, 8),
    k=6,
    m=3,
)
def merge_bit_masks(a: Term, k: Term, m: Term) -> Term:
    """(a & k) & m -> a & (k & m) for numbers; or, exclusive or."""
    return _bitwise(a, _bitwise(k, m))


@associative(
    lhs=lambda a, k, m: op.left_shift(a, k) * m,
    domain=Domain.INTEGER,
    when=_why_not_within_bits,
    a=(4, 8),
    k=2,
    m=3,
)
def shift_into_factor(a: Term, k: Term, m: Term) -> Term:
    """(a << k)*m -> a*(m << k) for numbers: quantised scales."""
    return a * op.left_shift(m, k)


@associative(lhs=lambda is_a: op.logical_not(op.logical_not(is_a)), is_a=(4, 8))
def not_not(is_a: Term) -> Term:
    """not not a -> a."""
    return is_a


@associative(lhs=lambda is_c, a, b, d: op.where(is_c, op.where(is_c, a, b), d), **CHOICE, d=(4, 8))
def choice_in_first_branch(is_c: Term, a: Term, b: Term, d: Term) -> Term:
    """where(c, where(c, a, b), d) -> where(c, a, d): a mask applied twice."""
    return op.where(is_c, a, d)


@associative(lhs=lambda is_c, a, b, d: op.where(is_c, a, op.where(is_c, b, d)), **CHOICE, d=(4, 8))
def choice_in_second_branch(is_c: Term, a: Term, b: Term, d: Term) -> Term:
    """where(c, a, where(c, b, d)) -> where(c, a, d): a mask applied twice."""
    return op.where(is_c, a, d)


@associative(
    lhs=lambda is_c, is_e, a, b: op.where(is_c, op.where(is_e, a, b), b),
    **CHOICE,
    is_e=(4, 8),
)
def choice_of_choice(is_c: Term, is_e: Term, a: Term, b: Term) -> Term:
    """where(c, where(e, a, b), b) -> where(c and e, a, b): a causal and a padding mask."""
    return op.where(op.logical_and(is_c, is_e), a, b)


@distributive(
    lhs=lambda is_c, a, b: op.where(is_c, _unary(a), _unary(b)), domain=Domain.FLOAT, **CHOICE
)
def choose_before_function(is_c: Term, a: Term, b: Term) -> Term:
    """where(c, f(a), f(b)) -> f(where(c, a, b))."""
    return _unary(op.where(is_c, a, b))


@distributive(
    lhs=lambda is_c, a, b, d: op.where(is_c, _symmetric(a, d), _symmetric(b, d)), **CHOICE, d=(4, 8)
)
def choose_before_common_operand(is_c: Term, a: Term, b: Term, d: Term) -> Term:
    """where(c, a + d, b + d) -> where(c, a, b) + d; and for *, max, min."""
    return _symmetric(op.where(is_c, a, b), d)


@distributive(
    lhs=lambda is_c, a, b, d: op.where(is_c, _ordered(a, d), _ordered(b, d)),
    domain=Domain.FLOAT,
    **CHOICE,
    d=(4, 8),
)
def choose_before_common_second_operand(is_c: Term, a: Term, b: Term, d: Term) -> Term:
    """where(c, a - d, b - d) -> where(c, a, b) - d; and for /."""
    return _ordered(op.where(is_c, a, b), d)


@distributive(
    lhs=lambda is_a, is_b: op.logical_and(op.logical_not(is_a), op.logical_not(is_b)), **MASKS
)
def neither(is_a: Term, is_b: Term) -> Term:
    """not a and not b -> not (a or b)."""
    return op.logical_not(op.logical_or(is_a, is_b))


@distributive(
    lhs=lambda is_a, is_b: op.logical_or(op.logical_not(is_a), op.logical_not(is_b)), **MASKS
)
def not_both(is_a: Term, is_b: Term) -> Term:
    """not a or not b -> not (a and b)."""
    return op.logical_not(op.logical_and(is_a, is_b))


@distributive(
    lhs=lambda is_a, is_b, is_c: op.logical_or(
        op.logical_and(is_a, is_c), op.logical_and(is_b, is_c)
    ),
    **MASKS,
    is_c=(4, 8),
)
def factor_common_mask(is_a: Term, is_b: Term, is_c: Term) -> Term:
    """(a and c) or (b and c) -> (a or b) and c."""
    return op.logical_and(op.logical_or(is_a, is_b), is_c)


@commutative(lhs=lambda is_c, a, b: op.where(op.logical_not(is_c), a, b), **CHOICE)
def choice_of_opposite(is_c: Term, a: Term, b: Term) -> Term:
    """where(not c, a, b) -> where(c, b, a)."""
    return op.where(is_c, b, a)


@commutative(lhs=lambda a, b: op.logical_not(op.equal(a, b)), **AB)
def not_equal_as_one(a: Term, b: Term) -> Term:
    """not (a == b) -> a != b."""
    return op.not_equal(a, b)


@commutative(lhs=lambda a, b: op.logical_not(op.less(a, b)), domain=Domain.INTEGER, **AB)
def not_less_as_one(a: Term, b: Term) -> Term:
    """not (a < b) -> a >= b for integers, which are never NaN."""
    return op.greater_equal(a, b)


@commutative(lhs=lambda a, b: op.logical_not(op.greater(a, b)), domain=Domain.INTEGER, **AB)
def not_greater_as_one(a: Term, b: Term) -> Term:
    """not (a > b) -> a <= b for integers, which are never NaN."""
    return op.less_equal(a, b)


@commutative(lhs=lambda a, b: op.less(-a, -b), domain=Domain.FLOAT, **AB)
def compare_negatives(a: Term, b: Term) -> Term:
    """-a < -b -> a > b."""
    return op.greater(a, b)


@commutative(
    lhs=lambda a, b: op.where(op.less(a, b), a, b), numeric_class=NumericClass.REASSOCIATES, **AB
)
def choice_as_minimum(a: Term, b: Term) -> Term:
    """where(a < b, a, b) -> min(a, b)."""
    return op.minimum(a, b)


@commutative(
    lhs=lambda a, b: op.where(op.greater(a, b), a, b), numeric_class=NumericClass.REASSOCIATES, **AB
)
def choice_as_maximum(a: Term, b: Term) -> Term:
    """where(a > b, a, b) -> max(a, b)."""
    return op.maximum(a, b)


RULES = (
    merge_left_shifts,
    merge_right_shifts,
    merge_bit_masks,
    shift_into_factor,
    not_not,
    choice_in_first_branch,
    choice_in_second_branch,
    choice_of_choice,
    choose_before_function,
    choose_before_common_operand,
    choose_before_common_second_operand,
    neither,
    not_both,
    factor_common_mask,
    choice_of_opposite,
    not_equal_as_one,
    not_less_as_one,
    not_greater_as_one,
    compare_negatives,
    choice_as_minimum,
    choice_as_maximum,
)
