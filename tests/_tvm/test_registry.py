from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import tvm
from tvm import relay, te
from tvm.relay.op.op import OpPattern

from tests.relay_modules import inputs_of, module, run_plain, var
from tvm_fusionx._tvm.registry import (
    register_elementwise_operator,
    register_operator,
    register_pure_intrinsic,
)


def test_registering_twice_changes_nothing() -> None:
    for _ in range(2):
        register_pure_intrinsic("tir.fusionx_test_intrinsic")
        register_elementwise_operator("tir.fusionx_test_operator", lambda x: x + x)
    operation = tvm.ir.Op.get("tir.fusionx_test_intrinsic")
    assert operation.get_attr("TVectorizable")
    assert tvm.ir.Op.get("tir.fusionx_test_operator").num_inputs == 1


def test_an_operator_of_several_inputs_has_types_attributes_and_numbers() -> None:
    name = "tir.fusionx_test_outer"
    for _ in range(2):
        register_operator(
            name,
            {"rows": "A vector.", "columns": "Another."},
            lambda attrs, inputs, out: [
                te.compute(
                    out.shape,
                    lambda i, j: inputs[0][i] * inputs[1][j] + tvm.tir.const(attrs.alpha),
                )
            ],
            pattern=OpPattern.INJECTIVE,
            type_relation=lambda operands, attrs: relay.TensorType(
                (operands[0].shape[0], operands[1].shape[0]), operands[0].dtype
            ),
            attributes="relay.attrs.LeakyReluAttrs",
        )
    operator = tvm.ir.Op.get(name)
    assert (operator.num_inputs, operator.get_attr("TOpPattern")) == (2, OpPattern.INJECTIVE)
    assert [argument.name for argument in operator.arguments] == ["rows", "columns"]
    assert operator.attrs_type_key == "relay.attrs.LeakyReluAttrs"
    attrs = tvm.ir.make_node("relay.attrs.LeakyReluAttrs", alpha=0.5)
    mod = module(relay.Call(operator, [var("x", 3), var("y", 4)], attrs))
    inputs = inputs_of(mod)
    (found,) = run_plain(mod, inputs)
    np.testing.assert_allclose(found, np.outer(inputs["x"], inputs["y"]) + 0.5, rtol=1e-6)


def test_threads_that_compile_at_once_register_the_same() -> None:
    threads = 8
    together = Barrier(threads)

    def register(name: str) -> None:
        together.wait()
        register_pure_intrinsic(name)

    with ThreadPoolExecutor(threads) as pool:
        for turn in range(16):
            name = f"tir.fusionx_test_intrinsic_of_threads_{turn}"
            list(pool.map(register, [name] * threads))
            assert tvm.ir.Op.get(name).get_attr("TVectorizable")
