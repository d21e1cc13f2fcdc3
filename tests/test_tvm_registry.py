from __future__ import annotations

import tvm

from tvm_fusionx._tvm_registry import register_elementwise_operator, register_pure_intrinsic


def test_registering_twice_changes_nothing() -> None:
    for _ in range(2):
        register_pure_intrinsic("tir.fusionx_test_intrinsic")
        register_elementwise_operator("tir.fusionx_test_operator", lambda x: x + x)
    operation = tvm.ir.Op.get("tir.fusionx_test_intrinsic")
    assert operation.get_attr("TVectorizable")
    assert tvm.ir.Op.get("tir.fusionx_test_operator").num_inputs == 1
