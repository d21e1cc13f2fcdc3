from __future__ import annotations

from tvm_fusionx.rewrite.term import LITERAL, Term, call, op, variable

a, b = variable("a"), variable("b")


def test_arithmetic_writes_relays_operators() -> None:
    assert str((a + b) * a - 2.0 / b) == "subtract(multiply(add(a, b), a), divide(2, b))"
    assert str(-(1 + a)) == "negative(add(1, a))"
    assert str(3 - a) == "subtract(3, a)"
    assert str(3 * a / 4) == "divide(multiply(3, a), 4)"


def test_operators_are_named_by_their_attribute() -> None:
    assert op.exp(a).op == "exp"
    assert op.nn.relu(a).op == "nn.relu"


def test_numbers_become_literals() -> None:
    (literal, _) = call("add", 1, a).operands
    assert literal == Term(LITERAL, number=1.0)


def test_attributes_are_kept_as_pairs() -> None:
    assert call("sum", a, attrs={"axis": (1,)}).attrs == (("axis", (1,)),)
    assert call("sum", a).attrs is None


def test_terms_are_equal_by_value() -> None:
    assert a + b == variable("a") + variable("b")
    assert a + b != b + a
