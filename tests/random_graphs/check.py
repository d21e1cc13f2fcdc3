"""Compile a random model, run it, and say how it went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tests.random_graphs.evaluate import Array
from tests.random_graphs.exact import exact_outputs, is_no_worse
from tvm_fusionx._tvm.arrays import is_floating, numpy_of
from tvm_fusionx.report.verify.difference import WINOGRAD_TOLERANCE

# Reassociating float32 laws, relative to the largest output.
TOLERANCE = 1e-5


class Outputs(list["Array"]):
    """Outputs in order, and what they are held to."""

    tolerance = TOLERANCE


TARGET = "llvm -mcpu=native"

OK = "ok"
REFUSED = "refused"  # a typed error of the package: what to do is in its message
FAILED = "failed"  # any other exception
WRONG = "wrong"
CRASHED = "crashed"
HUNG = "hung"

Compiler = Callable[[onnx.ModelProto, Mapping[str, Array]], list[Array]]


@dataclass(frozen=True)
class Outcome:
    """How one model went."""

    status: str
    """One of the constants above."""

    message: str = ""
    """What was wrong, or which error it was."""


def compile_with_fusionx(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """Run a model through the package."""
    import tvm
    from tvm.contrib.graph_executor import GraphModule

    import tvm_fusionx as fx

    mod, params = fx.from_onnx(model)
    library = fx.build(mod, TARGET, params=params)
    executor = GraphModule(library["default"](tvm.cpu(0)))
    found = Outputs(_run(executor, inputs))
    if "winograd" in library.get_graph_json():
        found.tolerance = WINOGRAD_TOLERANCE
    return found


def compile_for_opencl(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """Run a model through the package on the first OpenCL device; the runtime must be loaded."""
    import tvm
    from tvm.contrib.graph_executor import GraphModule

    import tvm_fusionx as fx

    mod, params = fx.from_onnx(model)
    library = fx.build(mod, tvm.target.Target("opencl", host="llvm"), params=params)
    return _run(GraphModule(library["default"](tvm.opencl(0))), inputs)


def compile_with_relay(
    opt_level: int, model: onnx.ModelProto, inputs: Mapping[str, Array]
) -> list[Array]:
    """Run a model through plain TVM, for comparison."""
    import tvm
    from tvm import relay
    from tvm.contrib.graph_executor import GraphModule

    from tvm_fusionx._tvm import cures

    with cures.let_cure():
        mod, params = relay.frontend.from_onnx(model, freeze_params=True)
        with tvm.transform.PassContext(opt_level=opt_level, config={"tir.disable_cse_tir": True}):
            library = relay.build(mod, tvm.target.Target(TARGET), params=params)
    return _run(GraphModule(library["default"](tvm.cpu(0))), inputs)


def _run(executor: Any, inputs: Mapping[str, Array]) -> list[Array]:
    # Inputs that no node uses are gone after compilation.
    known = executor.get_input_info()[0]
    for name, array in inputs.items():
        if name in known:
            executor.set_input(name, array)
    executor.run()
    return [numpy_of(executor.get_output(i)) for i in range(executor.get_num_outputs())]


def why_different(
    name: str, found: Array, expected: Array, tolerance: float = TOLERANCE
) -> str | None:
    """Return what distinguishes an output from its reference, or None."""
    if found.dtype != expected.dtype:
        return f"{name}: dtype {found.dtype} instead of {expected.dtype}"
    if found.shape != expected.shape:
        return f"{name}: shape {found.shape} instead of {expected.shape}"
    if not is_floating(expected.dtype):
        count = int((found != expected).sum())
        return f"{name}: {count} of {expected.size} elements differ" if count else None
    # Not in halves, where a difference is rounded once more.
    wide = expected.astype(np.float64)
    difference = float(np.abs(found.astype(np.float64) - wide).max())
    largest = float(np.abs(wide).max())
    if difference <= tolerance * largest:
        return None
    return f"{name}: differs by {difference:.3g} where the largest element is {largest:.3g}"


def check(
    compiler: Compiler,
    model: onnx.ModelProto,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    tolerances: Mapping[str, float] | None = None,
) -> Outcome:
    """Compile and run a model, and compare every output with its reference.

    Parameters
    ----------
    tolerances
        What outputs are held to that are not as exact as float32's.
    """
    from tvm_fusionx.errors import FusionXError

    try:
        found = compiler(model, inputs)
    except FusionXError as error:
        return Outcome(REFUSED, f"{type(error).__name__}: {error}")
    except Exception as error:  # whatever TVM raises is what this is here to find
        return Outcome(FAILED, f"{type(error).__name__}: {error}")
    if len(found) != len(outputs):
        return Outcome(WRONG, f"{len(found)} outputs instead of {len(outputs)}")
    usual = getattr(found, "tolerance", TOLERANCE)
    held_to = tolerances or {}
    ours = dict(zip(outputs, found, strict=True))
    reasons = {
        name: reason
        for name, expected in outputs.items()
        if (reason := why_different(name, ours[name], expected, held_to.get(name, usual)))
    }
    if reasons and not held_to:
        exact = exact_outputs(model, inputs)
        for name in list(reasons):
            if name in exact and is_no_worse(ours[name], outputs[name], exact[name], usual):
                del reasons[name]
    return Outcome(WRONG, "; ".join(reasons.values())) if reasons else Outcome(OK)
