"""What a whole model is held to: plain TVM, ONNX Runtime, given arrays, or a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvm_fusionx._tvm.arrays import is_brain
from tvm_fusionx._tvm.presence import install_command
from tvm_fusionx.errors import InputError, MissingDependencyError
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.report.verify.onnx_in_single import inputs_in_single, onnx_in_single
from tvm_fusionx.report.verify.unoptimised import build_in_single

Reference = (
    str
    | Path
    | Mapping[str, np.ndarray]
    | Sequence[np.ndarray]
    | Callable[[dict[str, np.ndarray]], Sequence[np.ndarray]]
    | Any
    | None
)


@dataclass(frozen=True)
class ReferenceOutputs:
    """What a model's outputs are held to.

    Attributes
    ----------
    name
        Who gave it.
    outputs
        In the model's order.
    """

    name: str
    outputs: list[np.ndarray]


def reference_outputs(
    reference: Reference,
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    inputs: dict[str, np.ndarray],
    target: Any,
) -> ReferenceOutputs:
    """Return the reference for the whole model.

    Parameters
    ----------
    reference
        None for plain TVM on `mod` without any optimisation; an ONNX file or ``ModelProto`` for
        ONNX Runtime; a dictionary (in output order) or sequence of arrays; or a function from the
        inputs to a sequence of arrays.

    Raises
    ------
    MissingDependencyError
        ONNX Runtime is asked for and not installed.
    """
    if reference is None:
        library = build_in_single(mod, target, params)
        return ReferenceOutputs("TVM at level 0", run_once(library, inputs))
    if isinstance(reference, (str, Path)):
        return ReferenceOutputs("ONNX Runtime", run_onnxruntime(str(reference), inputs))
    if hasattr(reference, "SerializeToString"):
        in_memory = reference.SerializeToString()
        return ReferenceOutputs("ONNX Runtime", run_onnxruntime(in_memory, inputs))
    if isinstance(reference, Mapping):
        reference = list(reference.values())
    if callable(reference):
        answer = reference(inputs)
        values = answer.values() if isinstance(answer, Mapping) else answer
        return ReferenceOutputs("the given function", list(map(_numbers, values)))
    return ReferenceOutputs("the given arrays", list(map(_numbers, reference)))


def _numbers(value: Any) -> np.ndarray:
    """Return an array to compare with; bfloat16 as float32, as outputs are compared."""
    array = np.asarray(value)
    return array.astype(np.float32) if is_brain(array) else array


def run_onnxruntime(model: str | bytes, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Run `model`, a path or the bytes of one, through ONNX Runtime, every operator as it stands.

    Of bfloat16, for which it has hardly a kernel, the same nodes in float32; so are the outputs.

    Raises
    ------
    MissingDependencyError
        ONNX Runtime is not installed.
    InputError
        ONNX Runtime takes other inputs than these, or rejects the model.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError(
            "onnxruntime",
            expected="an installed package to compare with",
            found=str(error),
            next_step=f"Install it with: {install_command('onnxruntime')}; or verify against TVM.",
        ) from error
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = ERRORS_ONLY

    def run(what: str | bytes, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        session = onnxruntime.InferenceSession(what, options, providers=["CPUExecutionProvider"])
        names = {node.name for node in session.get_inputs()}
        fed = {name: value for name, value in arrays.items() if name in names}
        return [np.asarray(value) for value in session.run(None, fed)]

    try:
        return run(model, inputs)
    except Exception as error:  # its exceptions derive from nothing of their own but Exception
        wide = onnx_in_single(model)
        if wide is not None:
            return run(wide, inputs_in_single(inputs))
        raise InputError(
            "reference by ONNX Runtime",
            expected=f"a model that takes {', '.join(inputs)}",
            found=str(error).strip().splitlines()[0],
            next_step="Check the file with onnx.checker, or leave the reference out for plain TVM.",
        ) from error


# ONNX Runtime's own scale: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal.
ERRORS_ONLY = 3
