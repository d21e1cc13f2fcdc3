from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tvm_fusionx import operators
from tvm_fusionx.lowering import register
from tvm_fusionx.operators import (
    ASSOCIATIVE,
    COMMUTATIVE,
    DISTRIBUTIVE,
    EXTERN_KERNELS,
    INDEX_OPERANDS,
    MAPPING_TYPES,
)

PROPERTY_SETS = {
    name: getattr(operators, name)
    for name in (
        "ASSOCIATIVE",
        "AXIS_NORMALIZATIONS",
        "AXIS_REDUCTIONS",
        "COMMUTATIVE",
        "CONTRACTIONS",
        "DISTRIBUTIVE",
        "EXTERN_KERNELS",
        "MOVEMENTS",
        "TRANSCENDENTALS",
        "WINDOW_REDUCTIONS",
    )
}

# TVM's pattern of operators that it fuses with nothing.
OPAQUE_PATTERN = 8

NUMPY = {
    "add": np.add,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "equal": np.equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "not_equal": np.not_equal,
}


@pytest.mark.parametrize("name", PROPERTY_SETS)
def test_properties_are_of_known_operators(name: str) -> None:
    assert PROPERTY_SETS[name]
    assert PROPERTY_SETS[name] <= MAPPING_TYPES.keys()


def test_properties_of_types_agree_with_the_types() -> None:
    many_to_many = operators.MANY_TO_MANY
    assert many_to_many >= operators.CONTRACTIONS
    assert many_to_many >= operators.AXIS_REDUCTIONS
    assert many_to_many >= operators.AXIS_NORMALIZATIONS
    assert many_to_many >= operators.WINDOW_REDUCTIONS
    assert operators.TRANSCENDENTALS <= operators.ONE_TO_ONE
    assert not operators.MOVEMENTS & (many_to_many | operators.OPAQUE)


@pytest.fixture(scope="module", autouse=True)
def fixture_own_operators() -> None:
    """Some are ours: TVM knows them when they are registered."""
    register()


@pytest.mark.parametrize("name", sorted(EXTERN_KERNELS))
def test_extern_kernels_are_opaque_to_tvm_too(name: str) -> None:
    assert relay.op.get(name).get_attr("TOpPattern") == OPAQUE_PATTERN


@pytest.mark.parametrize("name", sorted(INDEX_OPERANDS))
def test_index_operands_are_named_as_places_or_lengths(name: str) -> None:
    arguments = relay.op.get(name).arguments
    for position in INDEX_OPERANDS[name]:
        assert arguments[position].name in ("indices", "seq_lengths", "valid_length")


def test_every_commutative_operator_can_be_tried() -> None:
    assert NUMPY.keys() == COMMUTATIVE


@pytest.mark.parametrize("name", sorted(COMMUTATIVE))
def test_commutative_operators_are(name: str) -> None:
    a, b = np.random.default_rng(1).integers(-9, 9, (2, 50))
    assert np.array_equal(NUMPY[name](a, b), NUMPY[name](b, a))


@pytest.mark.parametrize("name", sorted(ASSOCIATIVE & COMMUTATIVE))
def test_associative_operators_are(name: str) -> None:
    a, b, c = np.random.default_rng(1).integers(-9, 9, (3, 50))
    apply = NUMPY[name]
    assert np.array_equal(apply(apply(a, b), c), apply(a, apply(b, c)))


def test_equality_is_commutative_but_not_associative() -> None:
    assert {"equal", "not_equal"} & ASSOCIATIVE == set()


def test_what_distributes_over_sums_is_linear_or_a_quotient() -> None:
    products = operators.CONTRACTIONS | {"multiply", "divide"}
    assert products | {"mean", "negative", "sum"} >= DISTRIBUTIVE
