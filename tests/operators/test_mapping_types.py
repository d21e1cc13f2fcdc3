from __future__ import annotations

import itertools

import pytest
import tvm

from tvm_fusionx import operators
from tvm_fusionx._tvm.selection import register_selection
from tvm_fusionx.expressions.registered import register_expressions
from tvm_fusionx.layout.blocked_sampling import register_sampling
from tvm_fusionx.operators import MAPPING_TYPES, MappingType, mapping_type_of
from tvm_fusionx.operators.recurrent_operator import register_recurrent

# Operators of other dialects in the same registry.
OTHER_DIALECTS = ("relax.", "tir.")

TYPE_SETS = {
    MappingType.ONE_TO_ONE: operators.ONE_TO_ONE,
    MappingType.REORGANIZE: operators.REORGANIZE,
    MappingType.SHUFFLE: operators.SHUFFLE,
    MappingType.ONE_TO_MANY: operators.ONE_TO_MANY,
    MappingType.MANY_TO_MANY: operators.MANY_TO_MANY,
    MappingType.OPAQUE: operators.OPAQUE,
}


def _relay_operators() -> set[str]:
    names = map(str, tvm.ir.Op.list_op_names())
    return {name for name in names if not name.startswith(OTHER_DIALECTS)}


def test_every_relay_operator_has_a_mapping_type_and_nothing_else_does() -> None:
    register_expressions()
    register_recurrent()
    register_sampling()
    register_selection()
    known = _relay_operators()
    assert len(known) == 320
    assert MAPPING_TYPES.keys() == known


def test_no_operator_is_of_two_types() -> None:
    for (_, first), (_, second) in itertools.combinations(TYPE_SETS.items(), 2):
        assert not first & second


@pytest.mark.parametrize("type_", TYPE_SETS, ids=lambda type_: type_.value)
def test_the_table_is_the_sets(type_: MappingType) -> None:
    assert TYPE_SETS[type_] == {name for name, of in MAPPING_TYPES.items() if of is type_}
    assert all(mapping_type_of(name) is type_ for name in TYPE_SETS[type_])


def test_an_unknown_operator_is_opaque() -> None:
    assert mapping_type_of("no.such.operator") is MappingType.OPAQUE
