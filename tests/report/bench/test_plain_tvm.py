from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.tiny_models import TARGET
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.report.bench.plain_tvm import build_plain, load, run_once, set_inputs


def _module(*names: str) -> tvm.IRModule:
    variables = [relay.var(name, shape=(3,)) for name in names]
    body = relay.exp(relay.add(variables[0], variables[-1]))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(variables, body)))


def test_level_0_gives_every_operator_a_kernel_and_the_default_fuses() -> None:
    for level, kernels in ((0, 2), (3, 1)):
        library = build_plain(_module("x", "y"), TARGET, opt_level=level)
        assert len(KernelGraph.from_json(library.get_graph_json()).kernels) == kernels


def test_parameters_are_bound() -> None:
    library = build_plain(_module("x", "y"), TARGET, {"y": np.ones(3, "float32")})
    value = run_once(library, {"x": np.zeros(3, "float32")})[0]
    np.testing.assert_allclose(value, np.full(3, np.e), rtol=1e-6)


def test_a_model_that_llvm_rejects_without_our_cure_is_built() -> None:
    ids = relay.var("ids", shape=(8,), dtype="int64")
    body = relay.floor_mod(ids, relay.const(3, "int64"))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([ids], body)))
    value = np.array([-7, -3, -1, 0, 1, 3, 4, 8], "int64")
    assert np.array_equal(run_once(build_plain(mod, TARGET), {"ids": value})[0], value % 3)


def test_inputs_may_be_called_what_tvms_own_arguments_are_called() -> None:
    executor = load(build_plain(_module("key", "value"), TARGET))
    set_inputs(executor, {"key": np.zeros(3, "float32"), "value": np.zeros(3, "float32")})
    executor.run()
    assert np.array_equal(executor.get_output(0).numpy(), np.ones(3, "float32"))


@pytest.mark.parametrize("own", [False, True])
def test_operators_are_defined_as_for_ours_or_as_tvm_does(
    monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    targets = []

    def build(mod: tvm.IRModule, target: tvm.target.Target, params: object) -> None:
        targets.append(target)

    monkeypatch.setattr(relay, "build", build)
    board = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon"
    build_plain(_module("x", "y"), board, own_definitions=own)
    assert targets[0].keys[0] == ("arm_cpu" if own else "cpu")
