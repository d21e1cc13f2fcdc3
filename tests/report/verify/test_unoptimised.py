from __future__ import annotations

import numpy as np
import tvm
from tvm import relay

from tests.tiny_models import TARGET
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.report.verify.unoptimised import (
    build_in_single,
    build_unoptimised,
    narrowest_type,
)

SCALE, ZERO = 0.5, 3


def test_every_operator_is_a_kernel_of_its_own() -> None:
    x, y = (relay.var(name, shape=(3,)) for name in "xy")
    function = relay.Function([x, y], relay.exp(relay.add(x, y)))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    library = build_unoptimised(mod, TARGET, {"y": np.ones(3, "float32")})
    assert len(KernelGraph.from_json(library.get_graph_json()).kernels) == 2
    np.testing.assert_allclose(
        run_once(library, {"x": np.zeros(3, "float32")})[0], np.full(3, np.e), rtol=1e-6
    )


def test_quantised_operators_are_taken_apart() -> None:
    x = relay.var("x", shape=(4,), dtype="int8")
    body = relay.qnn.dequantize(x, relay.const(SCALE), relay.const(ZERO, "int32"))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))
    given = np.array([-128, 0, 3, 127], "int8")
    (found,) = run_once(build_unoptimised(mod, TARGET), {"x": given})
    assert np.array_equal(found, (given.astype("float32") - ZERO) * np.float32(SCALE))


def _sum_of_squares(dtype: str) -> tvm.IRModule:
    x = relay.var("x", shape=(4096,), dtype=dtype)
    function = relay.Function([x], relay.sqrt(relay.sum(x * x)))
    return relay.transform.InferType()(tvm.IRModule.from_expr(function))


def test_a_reference_in_halves_is_computed_in_float32() -> None:
    mod, given = _sum_of_squares("float16"), {"x": np.full(4096, 300, "float16")}
    (half,) = run_once(build_unoptimised(mod, TARGET), given)
    assert np.isinf(half)
    (found,) = run_once(build_in_single(mod, TARGET), given)
    assert (found.dtype, float(found)) == (np.float16, 19200.0)


def test_the_narrowest_type_is_what_most_digits_are_lost_by() -> None:
    assert narrowest_type(_sum_of_squares("float32")) == "float32"
    assert narrowest_type(_sum_of_squares("float16")) == "float16"
    assert narrowest_type(_sum_of_squares("bfloat16")) == "bfloat16"
    x = relay.var("x", shape=(4,))
    inner = relay.cast(relay.exp(relay.cast(x, "float16")), "float32")
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], inner)))
    assert narrowest_type(mod) == "float16"
