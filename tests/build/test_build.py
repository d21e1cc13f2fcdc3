from __future__ import annotations

import pytest
from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

import tvm_fusionx as fx
from tests.relay_modules import TARGET, module, var
from tvm_fusionx.errors import ModelError


def test_a_module_becomes_a_factory() -> None:
    assert isinstance(fx.build(module(var("x", 2, 3)), TARGET), GraphExecutorFactoryModule)


def test_a_module_has_its_shapes_already() -> None:
    with pytest.raises(ModelError, match="a Relay module, whose shapes are known"):
        fx.build(module(var("x", 2, 3)), TARGET, shapes=[{"x": (2, 3)}])
