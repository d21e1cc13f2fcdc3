from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from tests.compress.prune.small_modules import example, mixed, nn, torch
from tvm_fusionx.compress.prune.export import check_numbers, check_zeros, export_module
from tvm_fusionx.errors import ModelError, WrongResultError


class Changing(nn.Module):  # type: ignore[name-defined,misc]
    """Never the same twice."""

    def forward(self, x: Any) -> Any:
        """Return noise beside x."""
        return x + torch.rand(())


def test_norms_are_folded_and_zeros_stay() -> None:
    module = mixed()
    with torch.no_grad():
        module.features[0].weight[:, :, 0] = 0
        module.lstm.weight_ih_l0[:, ::2] = 0
    model = export_module(module, example())
    assert "BatchNormalization" not in {node.op_type for node in model.graph.node}
    arrays = [numpy_helper.to_array(each) for each in model.graph.initializer]
    convolution = next(array for array in arrays if array.shape == (8, 2, 3, 3))
    assert (convolution[:, :, 0] == 0).all()
    assert np.count_nonzero(convolution) == 8 * 2 * 6
    zeros = 8 * 2 * 3 + 32 * 3
    check_zeros(model, zeros)
    with pytest.raises(WrongResultError, match=f"expected {zeros + 1} zeros"):
        check_zeros(model, zeros + 1)
    apart = check_numbers(model, module, example())
    assert apart is not None
    assert apart < 1e-5


def test_numbers_that_differ_are_told() -> None:
    module = mixed()
    model = export_module(module, example())
    with torch.no_grad():
        module.head.weight += 0.1
    with pytest.raises(WrongResultError, match="apart"):
        check_numbers(model, module, example())


def test_what_cannot_be_exported_is_told() -> None:
    with pytest.raises(ModelError, match="module Linear"):
        export_module(nn.Linear(3, 3), (torch.ones(2, 4),))
