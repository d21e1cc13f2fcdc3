from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor


def node(inputs: list[object], **attributes: object) -> Node:
    names = [f"in{i}" for i in range(len(inputs))]
    return Node("n", "Op", 13, attributes, inputs, ["y", "", "z"], names)


X = Tensor(relay.var("x", shape=(2, 3)), (2, 3), "float32")
AXES = Tensor.from_array(np.array([1, -1]))


def test_optional_inputs_and_outputs() -> None:
    given = node([X, None, AXES])
    assert [given.has(i) for i in range(4)] == [True, False, True, False]
    assert [given.wants(i) for i in range(4)] == [True, False, True, False]


def test_integers_come_from_an_input_or_an_attribute() -> None:
    assert node([X, AXES], axes=[7]).ints_from("axes", 1) == [1, -1]
    assert node([X], axes=[7]).ints_from("axes", 1) == [7]
    assert node([X]).ints_from("axes", 1) is None


def test_axes_count_from_the_front() -> None:
    assert node([X], axis=-1).axis(0) == 1
    assert node([X]).axis(-2) == 0


def test_a_computed_value_where_a_known_one_is_needed() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"Op node 'n'.*input 0 \('in0'\)"):
        node([X]).array(0)


@pytest.mark.parametrize(("inputs", "found"), [([[X]], "a sequence"), ([], "nothing")])
def test_a_tensor_where_there_is_none(inputs: list[object], found: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=f"found {found}"):
        node(inputs).tensor(0)
