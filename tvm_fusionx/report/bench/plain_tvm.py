"""TVM without us: the reference for blocks, and a side of benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from tvm_fusionx._tvm.cures import drop_lets, let_cure, remembered_library_information
from tvm_fusionx.late_passes.brain_casts import cast_brains_by_bits
from tvm_fusionx.late_passes.emit_dots import emit_dots
from tvm_fusionx.processors.targets import with_own_definitions
from tvm_fusionx.report.bench.stored_numbers import numbers_of
from tvm_fusionx.schedules import resolve_target

# Where TVM's own lowering passes end; ours that cures an LLVM fault runs with them.
LOWER_PHASE = 3

# What a user of TVM gets from tvmc and the tutorials.
DEFAULT_OPT_LEVEL = 3


def cured_config() -> dict[str, Any]:
    """Return the ``PassContext`` configuration under which LLVM takes what TVM makes.

    Dot products of integers, which are in operators of ours, become plain arithmetic, and casts of
    bfloat16 that of its bits.
    """
    passes = [drop_lets(), cast_brains_by_bits(), emit_dots(None)]
    return {
        "tir.disable_cse_tir": True,
        "tir.add_lower_pass": [(LOWER_PHASE, each) for each in passes],
    }


def build_plain(
    mod: tvm.IRModule,
    target: str | tvm.target.Target,
    params: Mapping[str, Any] | None = None,
    opt_level: int = DEFAULT_OPT_LEVEL,
    *,
    own_definitions: bool = False,
) -> Any:
    """Build `mod` with TVM's own fusion and schedules.

    Only the cure of the LLVM fault that makes TVM fail on valid models is ours.

    Parameters
    ----------
    opt_level
        TVM's optimisation level; at 0 every operator is a kernel of its own.
    own_definitions
        Define operators as TVM does for the target, which differs from our choice on Arm.

    Returns
    -------
    GraphExecutorFactoryModule
    """
    resolved = resolve_target(target)
    if own_definitions:
        resolved = with_own_definitions(resolved)
    with (
        let_cure(),
        remembered_library_information(),
        tvm.transform.PassContext(opt_level=opt_level, config=cured_config()),
    ):
        return relay.build(mod, target=resolved, params=dict(params or {}))


def load(library: Any, device: Any = None) -> Any:
    """Return a graph executor for `library` on `device` (the first CPU by default)."""
    return graph_executor.GraphModule(
        library["default"](device if device is not None else tvm.cpu(0))
    )


def run_once(
    library: Any, inputs: Mapping[str, np.ndarray], device: Any = None
) -> list[np.ndarray]:
    """Run `library` once on `inputs` and return its outputs in order; bfloat16 as float32."""
    executor = load(library, device)
    set_inputs(executor, inputs)
    executor.run()
    return [numbers_of(executor.get_output(index)) for index in range(executor.get_num_outputs())]


def set_inputs(executor: Any, inputs: Mapping[str, np.ndarray]) -> None:
    """Give `executor` its inputs.

    One at a time: ``set_input(**inputs)`` fails on a model whose input is called ``key`` or
    ``value``.
    """
    for name, value in inputs.items():
        executor.set_input(name, value)
