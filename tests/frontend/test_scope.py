from __future__ import annotations

import numpy as np
import pytest

from tvm_fusionx.errors import ModelError
from tvm_fusionx.frontend.scope import Scope
from tvm_fusionx.frontend.values import Tensor


def test_a_subgraph_sees_its_surroundings_and_hides_them() -> None:
    outer = Scope()
    outer["x"], outer["y"] = (Tensor.from_array(np.full(2, each)) for each in (1.0, 2.0))
    inner = Scope(outer)
    inner["x"] = Tensor.from_array(np.full(2, 3.0))
    assert inner["y"] is outer["y"]
    assert inner["x"] is not outer["x"]
    with pytest.raises(ModelError, match="value 'z'"):
        inner["z"]
