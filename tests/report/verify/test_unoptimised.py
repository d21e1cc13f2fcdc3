from __future__ import annotations

import numpy as np
import tvm
from tvm import relay

from tests.tiny_models import TARGET
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.report.verify.unoptimised import build_unoptimised

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
