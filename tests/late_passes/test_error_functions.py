"""One and an error function in one: within the stated error, exact at the ends, and used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.late_passes.test_polynomials import values
from tests.schedules.float_functions import arguments
from tvm_fusionx.late_passes.error_functions import ERF_OF_VECTORS, ONE_PLUS_ERF, one_plus_erf
from tvm_fusionx.late_passes.vectorise_mathematics import (
    name_vector_functions,
    vectorise_mathematics,
)

special = pytest.importorskip("scipy.special")

# As its docstring says.
LARGEST_ERROR = 1.9e-7
# Beyond, the sum is 2 or nothing to the bit: so far off erfc is no number of float32.
FAR = 9.5


def test_one_plus_erf_is_as_exact_as_it_says() -> None:
    x = arguments()
    found = values(one_plus_erf, x)
    with np.errstate(invalid="ignore"):
        exact = 1 + special.erf(x.astype("float64"))
    no_number = np.isnan(x)
    assert np.isnan(found[no_number]).all()
    assert np.abs(found - exact)[~no_number].max() <= LARGEST_ERROR
    assert set(found[x >= FAR]) == {np.float32(2)}
    assert set(found[x <= -FAR]) == {np.float32(0)}
    assert (found[~no_number] >= 0).all()


def _calls(value: Any, **options: bool) -> list[str]:
    """Return the functions that a store of `value` has left, of which none has a replacement."""
    name_vector_functions()
    y = tir.decl_buffer((4,), name="y")
    place = tir.Var("y", "handle")
    func = tir.PrimFunc([place], tir.BufferStore(y, value(y), [0]), buffer_map={place: y})
    mod = vectorise_mathematics(**options)(tvm.IRModule({"main": func}))
    found = []

    def visit(call: Any) -> None:
        found.append(call.op.name)

    tir.stmt_functor.ir_transform(mod["main"].body, visit, None, ["tir.Call"])
    return found


def _error_function(y: Any) -> Any:
    return tir.call_intrin("float32", ERF_OF_VECTORS, tir.BufferLoad(y, [0]))


def test_the_sum_is_one_function_where_bounds_keep_a_nan() -> None:
    one = tir.const(1.0, "float32")
    # A minimum in `erf` bounds its argument; the sum has a maximum alone, and becomes shorter.
    of_sum = _calls(lambda y: _error_function(y) + one, extremes_keep_nan=True)
    turned = _calls(lambda y: one + _error_function(y), extremes_keep_nan=True)
    apart = _calls(lambda y: _error_function(y) + one)
    alone = _calls(_error_function, extremes_keep_nan=True)
    two = _calls(lambda y: _error_function(y) + one + one, extremes_keep_nan=True)
    assert of_sum == turned == two
    assert len(of_sum) < len(apart)
    assert len(of_sum) < len(alone)
    assert ONE_PLUS_ERF not in of_sum + apart + alone
