from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.opencl_device import require_opencl
from tests.relay_modules import var
from tests.schedules.blocked_blocks import as_block
from tvm_fusionx.lowering import lowering
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules.gpu.functions import register_functions

TARGET = tvm.target.Target("opencl", host="llvm")


@pytest.mark.parametrize("name", ["acos", "asin", "atan", "tan", "asinh", "atanh"])
def test_functions_that_tvm_calls_by_their_c_names(name: str) -> None:
    require_opencl()
    register_functions()
    mod = as_block(getattr(relay, name)(var("x", 32)))
    x = np.linspace(-0.9, 0.9, 32, dtype="float32")
    with lowering(TARGET):
        library = relay.build(mod, TARGET)
    (found,) = run_once(library, {"x": x}, tvm.opencl(0))
    numpy_name = name.replace("atanh", "arctanh") if name == "atanh" else name
    numpy_name = {"acos": "arccos", "asin": "arcsin", "atan": "arctan", "asinh": "arcsinh"}.get(
        name, numpy_name
    )
    np.testing.assert_allclose(found, getattr(np, numpy_name)(x), rtol=1e-6, atol=1e-6)
