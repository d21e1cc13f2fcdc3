from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_fusionx.frontend.seal import NUMPY_EQUIVALENTS, fold_call, seal
from tvm_fusionx.frontend.values import constant

X = relay.var("x", shape=(2, 3))
DATA = np.arange(6, dtype="float32").reshape(2, 3)

CALLS = {
    "add": lambda c: c + c,
    "broadcast_to": lambda c: relay.broadcast_to(c, (4, 2, 3)),
    "cast": lambda c: relay.cast(c, "float64"),
    "equal": lambda c: relay.equal(c, c),
    "expand_dims": lambda c: relay.expand_dims(c, -1, 2),
    "greater": lambda c: relay.greater(c, constant(np.float32(2))),
    "less": lambda c: relay.less(c, constant(np.float32(2))),
    "logical_not": lambda c: relay.logical_not(relay.less(c, c)),
    "maximum": lambda c: relay.maximum(c, constant(np.float32(2))),
    "minimum": lambda c: relay.minimum(c, constant(np.float32(2))),
    "multiply": lambda c: c * c,
    "negative": relay.negative,
    "reshape": lambda c: relay.reshape(c, (0, -1, 1)),
    "sqrt": relay.sqrt,
    "squeeze": lambda c: relay.squeeze(relay.expand_dims(c, 0), [0]),
    "subtract": lambda c: c - constant(np.float32(2)),
    "transpose": lambda c: relay.transpose(c, (1, 0)),
    "where": lambda c: relay.where(relay.less(c, c), c, c),
}


def test_every_equivalent_is_checked() -> None:
    assert set(CALLS) == set(NUMPY_EQUIVALENTS)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_constants_fold_to_the_type_that_relay_infers(name: str) -> None:
    call = CALLS[name](constant(DATA))
    expected = relay.transform.InferTypeLocal(call)
    (folded,) = seal([call], "n", {})
    assert isinstance(folded, relay.Constant)
    assert folded.data.shape == tuple(int(dim) for dim in expected.shape)
    assert folded.data.dtype == expected.dtype


def test_folded_numbers_are_right() -> None:
    (folded,) = seal([relay.transpose(constant(DATA) * constant(DATA))], "n", {})
    np.testing.assert_array_equal(folded.data.numpy(), (DATA * DATA).T)


def test_casts_that_could_differ_stay() -> None:
    call = relay.cast(constant(np.float32(1e20)), "int32")
    assert fold_call(call) is call


def test_every_new_call_gets_the_name_and_known_ones_keep_theirs() -> None:
    (old,) = seal([relay.nn.relu(X)], "old", {X: X})
    parts = relay.split(old * old, 3, axis=1)
    outputs = seal([parts[0], parts[2]], "new", {X: X, old: old})
    names = set()
    tvm.relay.analysis.post_order_visit(
        relay.Tuple(outputs),
        lambda e: (
            names.add((e.op.name, e.span.source_name.name)) if isinstance(e, relay.Call) else None
        ),
    )
    assert names == {("nn.relu", "old"), ("multiply", "new"), ("split", "new")}


def test_a_variable_is_replaced_by_what_it_stood_for() -> None:
    stand_in = relay.var("input0", shape=(2, 3))
    (sealed,) = seal([stand_in + stand_in], "n", {stand_in: X})
    assert sealed.args[0].same_as(X)


def test_control_flow_is_not_walked_into() -> None:
    chosen = relay.If(relay.const(True), X, X)
    with pytest.raises(TypeError, match="made a If"):
        seal([chosen], "n", {X: X})
