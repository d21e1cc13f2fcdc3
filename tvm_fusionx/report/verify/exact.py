"""What a block's arithmetic gives without rounding to speak of: the same operators in float64.

Two float32 programs that differ may both be right, and the plain one is not always the nearer:
TVM's softmax adds thousands of probabilities one after the other and is off by 4e-5 where a sum in
lanes is off by 2e-6. Float64 decides between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.ecg.retyped import retyped
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.report.verify.unoptimised import build_unoptimised

NARROW = ("float32", "float16", "bfloat16")
WIDE = "float64"


def exact_outputs(
    function: relay.Function, operands: Sequence[np.ndarray], target: Any
) -> list[np.ndarray]:
    """Run a block's function in float64.

    Parameters
    ----------
    function
        A block: operators on its parameters, float constants included.
    operands
        One array for each parameter, in order.
    target
        What to compile for; it must run on this machine.

    Returns
    -------
    list of np.ndarray
        One array for each output; floating point ones in float64.

    Raises
    ------
    tvm.TVMError
        TVM has no float64 version of an operator.
    """
    module = in_float64(function)
    inputs = {
        str(parameter.name_hint): operand.astype(_widened(str(operand.dtype)))
        for parameter, operand in zip(module["main"].params, operands, strict=True)
    }
    return run_once(build_unoptimised(module, target), inputs)


def in_float64(function: relay.Function) -> tvm.IRModule:
    """Return a module whose ``main`` is `function` with every narrower float made a float64."""
    parameters = {
        parameter: relay.Var(
            f"operand_{position}",
            relay.TensorType(parameter.checked_type.shape, _widened(parameter.checked_type.dtype)),
        )
        for position, parameter in enumerate(function.params)
    }
    body = retyped(function, dict.fromkeys(NARROW, WIDE), parameters)
    whole = relay.Function(list(parameters.values()), body)
    return relay.transform.InferType()(tvm.IRModule.from_expr(whole))


def _widened(dtype: Any) -> str:
    return WIDE if dtype in NARROW else str(dtype)
