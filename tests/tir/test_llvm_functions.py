"""Functions in LLVM's assembly reach the kernel that calls them."""

import numpy as np
import tvm
from tvm import tir

from tvm_fusionx.tir.llvm_functions import with_llvm_functions

NEXT = """
define i32 @next_number(i32 %number) {
  %next = add i32 %number, 1
  ret i32 %next
}
"""


def test_a_kernel_calls_a_function_that_it_brings() -> None:
    given, place = tir.Var("given", "handle"), tir.decl_buffer((1,), "int32", "place")
    number = tir.call_extern("int32", "next_number", tir.BufferLoad(place, [0]))
    body = with_llvm_functions(tir.BufferStore(place, number, [0]), NEXT)
    func = tir.PrimFunc([given], body, buffer_map={given: place})
    func = func.with_attr({"global_symbol": "kernel", "tir.noalias": True})
    held = tvm.nd.array(np.array([41], "int32"))
    tvm.build(tvm.IRModule({"kernel": func}), target="llvm")["kernel"](held)
    assert held.numpy() == [42]
