"""Operators of our own in TVM's registry: each a touch of what TVM's Python does not offer.

What is registered stays for the life of the process; a second time changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm

# `tvm::tir::CallEffectKind::kPure`.
PURE = 1

# Operators of this level are TVM's rarely used ones.
LEAST_SUPPORT = 10

# Threads that compile at once come to register the same.
_REGISTERING = threading.Lock()
# Operators that exist: TVM makes a list of all names to answer.
_existing: set[str] = set()


def _exists(name: str) -> bool:
    if name not in _existing:
        _existing.update(map(str, tvm.ir.Op.list_op_names()))
    return name in _existing


def register_pure_intrinsic(name: str) -> None:
    """Make `name` an operation of TIR that has no effect and works on vectors; idempotent.

    TVM registers operations from C++ only; the function behind that is not public.
    """
    with _REGISTERING:
        if _exists(name):
            return
        tvm.ir._ffi_api.RegisterOp(name, name)
        tvm.ir.register_op_attr(name, "TVectorizable", True)
        tvm.ir.register_op_attr(name, "TCallEffectKind", tvm.tir.IntImm("int32", PURE))


def compute_on_vectors(name: str) -> None:
    """Let TVM make vectors of calls to `name`, an operation of TIR that has no effect; idempotent.

    Its code generator does so for any that LLVM knows; TVM 0.19 forgot to say it of some.
    """
    with _REGISTERING:
        if tvm.ir.Op.get(name).get_attr("TVectorizable") is None:
            tvm.ir.register_op_attr(name, "TVectorizable", True)


def register_elementwise_operator(name: str, compute: Callable[[Any], Any]) -> None:
    """Make `name` a Relay operator that computes each element from one; idempotent."""
    from tvm import te
    from tvm.relay.op.op import OpPattern

    register_operator(
        name,
        {"data": "The elements."},
        lambda attrs, inputs, out: [
            te.compute(inputs[0].shape, lambda *place: compute(inputs[0](*place)))
        ],
        pattern=OpPattern.ELEMWISE,
        type_relation="Identity",
    )


def register_operator(
    name: str,
    inputs: Mapping[str, str],
    compute: Callable[[Any, Any, Any], list[Any]],
    *,
    pattern: int,
    type_relation: str | Callable[[Sequence[Any], Any], Any],
    attributes: str = "",
    schedule: Callable[[Any, Any, Any], Any] | None = None,
    shape_function: Callable[[Any, Any, Any], list[Any]] | None = None,
    shape_reads: Sequence[bool] = (),
) -> None:
    """Make `name` a Relay operator of tensors; idempotent.

    As for :func:`register_pure_intrinsic`, Python's way to make a whole operator is not public.

    Parameters
    ----------
    name
        Name in Relay.
    inputs
        What each operand is, by its name.
    compute
        Given attributes, operands and the result's type, returns a list of ``te`` tensors.
    pattern
        How TVM fuses it, of ``tvm.relay.op.op.OpPattern``: element by element, or injective.
    type_relation
        A relation of TVM's by name, or what returns the result's type, given the operands' types
        and attributes: None while those do not tell.
    attributes
        Type key of the attributes; empty where there are none.
    schedule
        Given attributes, results and the target, returns a schedule; that of injective operators
        when None.
    shape_function
        Given attributes, what is known of the operands and the results' ranks, returns a tensor of
        extents for each result, where types leave them open.
    shape_reads
        For each operand whether that function is given its numbers, and not its shape.
    """
    from tvm.relay.op import op as registry

    with _REGISTERING:
        if _exists(name):
            return
        tvm.ir._ffi_api.RegisterOp(name, name)
        operator = tvm.ir.Op.get(name)
        operator.set_num_inputs(len(inputs))
        for operand, description in inputs.items():
            operator.add_argument(operand, "Tensor", description)
        operator.set_support_level(LEAST_SUPPORT)
        if attributes:
            operator.set_attrs_type_key(attributes)
        if isinstance(type_relation, str):
            operator.add_type_rel(type_relation)
        else:
            operator.add_type_rel(name, type_relation)
        registry.register_pattern(name, pattern)
        registry.register_stateful(name, False)
        registry.register_compute(name, compute)
        if schedule is None:
            registry.register_injective_schedule(name)
        else:
            registry.register_schedule(name, tvm.target.generic_func(schedule))
        if shape_function is not None:
            registry.register_shape_func(name, list(shape_reads), shape_function)


# Operators that compute each element from one, which TVM has no shape function for.
WITHOUT_SHAPE_FUNCTION = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "isfinite"),
    *("isinf", "isnan", "log10", "reinterpret", "reverse", "sign", "sin", "sinh", "trilu", "trunc"),
)


def supply_shape_functions() -> None:
    """Tell TVM's virtual machine the shapes of what elementwise operators return; idempotent."""
    from tvm.relay.op import op as registry
    from tvm.relay.op._tensor import elemwise_shape_func

    with _REGISTERING:
        for name in WITHOUT_SHAPE_FUNCTION:
            if tvm.ir.Op.get(name).get_attr("FShapeFunc") is None:
                registry.register_shape_func(name, False, elemwise_shape_func)
