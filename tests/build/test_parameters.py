"""Values are bound to the parameters that they fit; what does not fit is told by name."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.errors import InputError, ModelError


def layer(rows: Any = 4) -> tvm.IRModule:
    data, weight = relay.var("data", shape=(rows, 8)), relay.var("weight", shape=(3, 8))
    return tvm.IRModule.from_expr(relay.Function([data, weight], relay.nn.dense(data, weight)))


def weight(*shape: int, dtype: str = "float32") -> Any:
    return np.ones(shape, dtype)


def test_binding_makes_a_new_module() -> None:
    mod = layer()
    bound = bind_parameters(mod, {"weight": weight(3, 8)})
    assert [param.name_hint for param in bound["main"].params] == ["data"]
    assert len(mod["main"].params) == 2
    assert bind_parameters(mod, None) is mod


def test_arrays_of_tvm_and_open_extents_are_taken() -> None:
    mod = layer(relay.Any())
    bound = bind_parameters(mod, {"weight": tvm.nd.array(weight(3, 8)), "data": weight(5, 8)})
    assert len(bound["main"].params) == 0


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (weight(3, 9), r"found \(3, 9\) of float32"),
        (weight(3), r"found \(3\) of float32"),
        (weight(3, 8, dtype="float64"), r"found \(3, 8\) of float64"),
    ],
)
def test_a_value_that_does_not_fit_is_named(value: Any, found: str) -> None:
    with pytest.raises(InputError, match=rf"parameter 'weight': expected \(3, 8\).*{found}"):
        bind_parameters(layer(), {"weight": value})


def test_unknown_names_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tvm_fusionx"):
        bind_parameters(layer(), {f"other_{i}": weight(1) for i in range(5)})
    (record,) = caplog.records
    assert "5 values are of no parameter" in record.getMessage()
    assert "other_0, other_1, other_2, ..." in record.getMessage()


def test_what_is_no_module() -> None:
    with pytest.raises(ModelError, match="found str"):
        bind_parameters("model.onnx", None)
