from __future__ import annotations

from tvm_fusionx.rewrite.term import (
    COMPUTED,
    LITERAL,
    Term,
    call,
    choices_in,
    computed,
    one_of,
    op,
    variable,
    with_choices,
)

a, b = variable("a"), variable("b")


def test_arithmetic_writes_relays_operators() -> None:
    assert str((a + b) * a - 2.0 / b) == "(((a + b) * a) - (2 / b))"
    assert str(-(1 + a)) == "negative((1 + a))"
    assert str(3 - a) == "(3 - a)"
    assert str(3 * a / 4) == "((3 * a) / 4)"


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


def test_one_of_several_operators_is_replaced_by_one() -> None:
    function = one_of("f", ["tanh", "exp"])
    term = function(a) + function(b)
    assert str(term) == "(f(a) + f(b))"
    assert choices_in(term) == {"f": ("exp", "tanh")}
    assert function(a).operators == ("exp", "tanh")
    assert str(with_choices(term, {"f": "tanh"})) == "(tanh(a) + tanh(b))"


def test_python_may_compute_a_part() -> None:
    def half(writing: object, value: object) -> object:
        return value

    term = computed(half)(a)
    assert (term.op, term.name, term.compute) == (COMPUTED, "half", half)
    assert str(term + b) == "(half(a) + b)"


def test_powers_and_tags() -> None:
    assert str(a**2.5) == "power(a, 2.5)"
    assert call("transpose", a, tag="p") != call("transpose", a)
