from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.fusion.classify import broadcasts, is_elementwise, mapping_type
from tvm_fusionx.operators import MappingType

ONE, MANY, ALL = MappingType.ONE_TO_ONE, MappingType.ONE_TO_MANY, MappingType.MANY_TO_MANY
REORGANIZE, SHUFFLE, OPAQUE = MappingType.REORGANIZE, MappingType.SHUFFLE, MappingType.OPAQUE

x, row = var("x", 4, 8), var("row", 1, 8)

TYPES: dict[str, tuple[Callable[[], relay.Expr], MappingType]] = {
    "elementwise": (lambda: relay.exp(x), ONE),
    "equal shapes": (lambda: x + var("y", 4, 8), ONE),
    "broadcast input": (lambda: x + row, MANY),
    "broadcast scalar input": (lambda: x * var("s"), MANY),
    "broadcast constant": (lambda: x + const(1, 8), ONE),
    "constant that is broadcast to": (lambda: row + const(4, 8), MANY),
    "added axis of one element": (lambda: x + var("y", 1, 4, 8), ONE),
    "concatenate": (lambda: relay.concatenate([x, row], axis=0), ONE),
    "pad": (lambda: relay.nn.pad(x, ((1, 1), (0, 0))), ONE),
    "stack": (lambda: relay.stack([x, x], axis=0), ONE),
    "split": (lambda: relay.split(x, 2).astuple(), ONE),
    "slice": (lambda: relay.strided_slice(x, [0], [2]), ONE),
    "broadcast_to": (lambda: relay.broadcast_to(row, (4, 8)), MANY),
    "reshape": (lambda: relay.reshape(x, (32,)), REORGANIZE),
    "transpose": (lambda: relay.transpose(x), SHUFFLE),
    "sum": (lambda: relay.sum(x), ALL),
    "dense": (lambda: relay.nn.dense(x, const(3, 8)), ALL),
    "argsort": (lambda: relay.argsort(x), OPAQUE),
    "cumsum, an extern kernel": (lambda: relay.cumsum(x, axis=0), OPAQUE),
    "where with a broadcast condition": (lambda: relay.where(row > relay.const(0.0), x, x), MANY),
}


@pytest.mark.parametrize("kind", TYPES)
def test_type_follows_from_operator_and_shapes(kind: str) -> None:
    make, expected = TYPES[kind]
    assert mapping_type(graph(make()).calls()[-1]) is expected


def test_a_called_function_is_opaque() -> None:
    p = var("p", 4, 8)
    (node,) = graph(relay.Call(relay.Function([p], relay.exp(p)), [x])).calls()
    assert mapping_type(node) is OPAQUE


def test_only_one_to_one_operators_on_whole_operands_are_elementwise() -> None:
    made = [relay.exp(x), relay.concatenate([x, x], axis=0), relay.reshape(x, (32,))]
    assert [is_elementwise(graph(expr).calls()[0]) for expr in made] == [True, False, False]


def test_broadcasting_is_seen_on_either_side() -> None:
    assert broadcasts(graph(x + row).calls()[0])
    assert broadcasts(graph(row + x).calls()[0])
    assert not broadcasts(graph(x + x).calls()[0])
