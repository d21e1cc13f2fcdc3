from __future__ import annotations

from typing import Any

import pytest
from tvm import tir

from tvm_fusionx.tir.look_up import ENTRIES, byte_looked_up

BYTE = tir.Var("byte", "uint8")


def _load(index: Any, extent: int = ENTRIES, dtype: str = "uint8") -> Any:
    return tir.BufferLoad(tir.decl_buffer((extent,), dtype), [index])


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_byte_says_the_place(dtype: str) -> None:
    assert byte_looked_up(_load(BYTE.astype("int32"), dtype=dtype)).same_as(BYTE)


@pytest.mark.parametrize(
    "load",
    [
        _load(BYTE.astype("int32"), extent=128),
        _load(BYTE.astype("int32"), dtype="float32"),
        _load(BYTE.astype("int32") + 1),
        _load(tir.Var("signed", "int8").astype("int32")),
        _load(tir.Var("place", "int32")),
        tir.BufferLoad(tir.decl_buffer((1, ENTRIES), "uint8"), [0, BYTE.astype("int32")]),
    ],
)
def test_other_loads(load: Any) -> None:
    assert byte_looked_up(load) is None
