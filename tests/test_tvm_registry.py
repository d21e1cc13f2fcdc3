from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import tvm

from tvm_fusionx._tvm_registry import register_elementwise_operator, register_pure_intrinsic


def test_registering_twice_changes_nothing() -> None:
    for _ in range(2):
        register_pure_intrinsic("tir.fusionx_test_intrinsic")
        register_elementwise_operator("tir.fusionx_test_operator", lambda x: x + x)
    operation = tvm.ir.Op.get("tir.fusionx_test_intrinsic")
    assert operation.get_attr("TVectorizable")
    assert tvm.ir.Op.get("tir.fusionx_test_operator").num_inputs == 1


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
