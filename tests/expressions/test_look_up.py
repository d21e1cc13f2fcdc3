from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import module, run_plain, var
from tvm_fusionx.expressions.look_up import LOOK_UP, register_look_up


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_each_byte_becomes_its_entry(dtype: str) -> None:
    register_look_up()
    register_look_up()
    x, table = var("x", 4, 64, dtype=dtype), var("table", 256, dtype="int8")
    mod = module(relay.Call(relay.op.get(LOOK_UP), [x, table]))
    numbers = np.arange(256, dtype="uint8").view(dtype).reshape(4, 64)
    entries = np.random.default_rng(0).integers(-128, 128, 256).astype("int8")
    (found,) = run_plain(mod, {"x": numbers, "table": entries})
    # The byte's bits are the place, whatever its sign.
    assert np.array_equal(found.reshape(-1), entries)


def test_the_result_has_the_type_of_the_table() -> None:
    register_look_up()
    call = relay.Call(
        relay.op.get(LOOK_UP), [var("x", 3, 5, dtype="int8"), var("table", 256, dtype="float32")]
    )
    result = module(call)["main"].body.checked_type
    assert (tuple(result.shape), result.dtype) == ((3, 5), "float32")
