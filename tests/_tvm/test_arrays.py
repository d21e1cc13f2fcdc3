from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tvm

from tvm_fusionx._tvm.arrays import is_brain, is_floating, limits_of, numpy_of, with_brains

BRAINS = np.array([1.5, -2.0], ml_dtypes.bfloat16)


def test_arrays_of_tvm_have_their_own_type() -> None:
    found = numpy_of(tvm.nd.array(BRAINS))
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found, BRAINS)
    assert numpy_of(tvm.nd.array(np.ones(2, "uint16"))).dtype == np.uint16


def test_what_files_hold_of_bfloat16() -> None:
    meaningless = BRAINS.view("V2")
    np.testing.assert_array_equal(with_brains(meaningless), BRAINS)
    np.testing.assert_array_equal(with_brains(BRAINS.view("uint16"), "bfloat16"), BRAINS)
    assert with_brains(BRAINS.view("uint16")).dtype == np.uint16
    assert with_brains(np.ones(2, "float32"), "bfloat16").dtype == np.float32


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("bfloat16", True), ("float16", True), ("float64", True), ("int8", False), ("bool", False)],
)
def test_which_types_have_fractions(dtype: str, expected: bool) -> None:
    assert is_floating(dtype) is expected
    assert is_floating(np.dtype(dtype)) is expected


def test_limits() -> None:
    assert is_brain(BRAINS)
    assert not is_brain(np.ones(1, "float16"))
    assert float(limits_of("bfloat16").max) == (2 - 2.0**-7) * 2.0**127
    assert float(limits_of("float32").max) == float(np.finfo("float32").max)
