"""The pass that has kernels take denormal numbers for zero.

Of numbers below the smallest normal one (1.2e-38 of float32) many processors make an exception that
costs them some 150 cycles (Intel's call it an assist), and a layer whose weights training has worn
down to such numbers then takes many times as long. Processors have bits that make zeros of them, in
a register that each thread has for itself. A kernel sets them when it begins, again where a thread
begins its share of a parallel loop, and gives back to each what it found: whoever calls the kernel
keeps its own arithmetic. Being in the code, it holds behind RPC and in exported libraries as well.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal, get_args

import tvm
from tvm import tir
from tvm.target import codegen

from tvm_fusionx.late_passes.let_nans_through import is_extreme
from tvm_fusionx.tir.llvm_functions import with_llvm_functions

Denormals = Literal["flush", "keep"]
"""What kernels do with numbers below the smallest normal one: take them for zero, or compute."""

FLUSH: Denormals = "flush"
KEEP: Denormals = "keep"

BEGIN = "fusionx_flush_denormals"
END = "fusionx_restore_denormals"


@dataclass(frozen=True)
class ControlRegister:
    """The register that says what a thread does with denormals, and code that changes it."""

    feature: str
    """LLVM's feature of processors that have it."""

    absent: str
    """LLVM's feature of those that have `feature` and another register; empty if there are none."""

    word: str
    """TIR's type of its content."""

    functions: str
    """In LLVM: `BEGIN` sets the bits and returns what was there, `END` gives that back."""


# MXCSR: bit 15 makes zeros of denormal results (FTZ), bit 6 of denormal operands (DAZ).
MXCSR_BITS = 1 << 15 | 1 << 6
# FPCR: bit 24 (FZ) does both, for float32 and float64; halves have a bit of their own, 19, which
# stays as it is: their denormals begin at 6e-5, and models hold such numbers.
FPCR_BITS = 1 << 24

CONTROL_REGISTERS = (
    ControlRegister(
        feature="sse2",
        absent="",
        word="int32",
        functions=f"""
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define i32 @{BEGIN}() {{
  %place = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %before = load i32, ptr %place, align 4
  %flushing = or i32 %before, {MXCSR_BITS}
  store i32 %flushing, ptr %place, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret i32 %before
}}
define i32 @{END}(i32 %before) {{
  %place = alloca i32, align 4
  store i32 %before, ptr %place, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret i32 0
}}
""",
    ),
    ControlRegister(
        feature="fp-armv8",
        absent="vfp2",
        word="int64",
        functions=f"""
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
define i64 @{BEGIN}() {{
  %before = call i64 @llvm.aarch64.get.fpcr()
  %flushing = or i64 %before, {FPCR_BITS}
  call void @llvm.aarch64.set.fpcr(i64 %flushing)
  ret i64 %before
}}
define i32 @{END}(i64 %before) {{
  call void @llvm.aarch64.set.fpcr(i64 %before)
  ret i32 0
}}
""",
    ),
)

# Float calls that choose or take apart, and compute nothing.
_CHOICES = frozenset(["tir.if_then_else", "tir.likely", "tir.reinterpret", "tir.tvm_struct_get"])

_ARITHMETIC = ("tir.Add", "tir.Sub", "tir.Mul", "tir.Div", "tir.Mod", "tir.Call", "tir.Cast")
# Once arithmetic is found nobody looks into these any more.
_STATEMENTS = ("tir.For", "tir.SeqStmt", "tir.BufferStore", "tir.IfThenElse", "tir.AttrStmt")


def check_denormals(denormals: str) -> None:
    """Raise ValueError where `denormals` is no answer to what kernels do with them."""
    if denormals not in get_args(Denormals):
        expected = " or ".join(map(repr, get_args(Denormals)))
        raise ValueError(f"denormals: expected {expected}; found {denormals!r}.")


def control_register(target: tvm.target.Target) -> ControlRegister | None:
    """Return the register of a CPU target; None where none is known."""
    return _register_of(str(target))


@functools.lru_cache(maxsize=64)
def _register_of(target_text: str) -> ControlRegister | None:
    target = tvm.target.Target(target_text)
    features = {str(feature) for feature in codegen.llvm_get_cpu_features(target)}
    for register in CONTROL_REGISTERS:
        if register.feature in features and register.absent not in features:
            return register
    return None


def flush_denormals(register: ControlRegister) -> Any:
    """Return the TIR pass that has kernels flush denormals, after lowering.

    Kernels that only move, choose or compare numbers, or compute with integers, stay as they are.
    """

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.FlushDenormals")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        if not computes_in_floats(func.body):
            return func

        def change(loop: Any) -> Any:
            return _flushing_loop(loop, register) if loop.kind == tir.ForKind.PARALLEL else None

        body = tir.stmt_functor.ir_transform(func.body, None, change, ["tir.For"])
        body = _flushing(body, register)
        return func.with_body(with_llvm_functions(body, register.functions))

    return run


def computes_in_floats(body: Any) -> bool:
    """Tell whether a statement does floating-point arithmetic, which may meet denormals."""
    is_found = False

    def look(node: Any) -> Any:
        nonlocal is_found
        is_found = is_found or _is_float_arithmetic(node)
        # What is returned is not looked into.
        return node if is_found else None

    tir.stmt_functor.ir_transform(body, look, None, [*_ARITHMETIC, *_STATEMENTS])
    return is_found


def _is_float_arithmetic(node: Any) -> bool:
    if not isinstance(node, tir.PrimExpr) or not _is_float(node.dtype):
        return False
    if isinstance(node, tir.Cast):
        return _is_float(node.value.dtype)
    if not isinstance(node, tir.Call):
        return True
    return getattr(node.op, "name", "") not in _CHOICES and not is_extreme(node)


def _is_float(dtype: str) -> bool:
    return "float" in str(dtype)


def _flushing_loop(loop: Any, register: ControlRegister) -> Any:
    """Return a parallel loop whose iterations set the bits, on whichever thread they run.

    Where all of an iteration stands under a condition, within that: of the loops that
    :mod:`tvm_fusionx.late_passes.steal_work` divides, most iterations then end before.
    """
    body = loop.body
    if isinstance(body, tir.IfThenElse) and body.else_case is None:
        body = tir.IfThenElse(body.condition, _flushing(body.then_case, register), None)
    else:
        body = _flushing(body, register)
    return tir.For(
        loop.loop_var,
        loop.min,
        loop.extent,
        loop.kind,
        body,
        loop.thread_binding,
        loop.annotations,
    )


def _flushing(body: Any, register: ControlRegister) -> Any:
    """Return `body` between what sets the bits and what gives back the register."""
    before = tir.Var("before", register.word)
    end = tir.Evaluate(tir.call_extern("int32", END, before))
    begin = tir.call_extern(register.word, BEGIN)
    return tir.LetStmt(before, begin, tir.SeqStmt([body, end]))
