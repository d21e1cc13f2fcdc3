"""Check a model for TVM's virtual machine: its outputs, and blocks before what the data decides.

What lies behind has no inputs that are known beforehand: it is checked with the outputs only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.build.vm_program import build_for_machine
from tvm_fusionx.passes import OutlineStatic
from tvm_fusionx.report.bench.plain_machine import build_plain_machine
from tvm_fusionx.report.verify.reference import Reference, reference_outputs
from tvm_fusionx.report.verify.verdict import VerifyReport

# As OutlineStatic names what comes before all that the data decides.
FIRST_STATIC = "main_static_0"


def static_beginning(mod: tvm.IRModule) -> tvm.IRModule | None:
    """Return what a model computes before the data decides anything, as a module; None for nothing.

    Its parameters have the names of the model's inputs.
    """
    outlined = tvm.transform.Sequential([OutlineStatic()])(mod)
    for variable, func in outlined.functions.items():
        if variable.name_hint == FIRST_STATIC:
            alone = relay.Function(func.params, func.body)
            return relay.transform.InferType()(tvm.IRModule({relay.GlobalVar("main"): alone}))
    return None


def verify_machine(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    arrays: dict[str, np.ndarray],
    target: Any,
    reference: Reference,
    tolerance: float,
    choices: Mapping[str, Any],
    on_stage: Callable[[str], None],
    verify_static: Callable[[tvm.IRModule, dict[str, np.ndarray]], VerifyReport],
    compare: Callable[[list[np.ndarray], list[np.ndarray]], Any],
) -> VerifyReport:
    """Return the report of a model whose shapes or branches the data decides.

    Parameters
    ----------
    mod, params, target, reference, tolerance, on_stage
        As of :func:`tvm_fusionx.report.verify.verify.verify`.
    arrays
        The inputs, checked.
    choices
        Records and rules.
    verify_static
        Checks a static module with its inputs, block by block.
    compare
        Measures how outputs differ.
    """
    bound = relay.transform.InferType()(bind_parameters(mod, params))
    program = build_for_machine(bound, target, on_stage=on_stage, **choices)
    outputs = program.run(**arrays)
    on_stage("computing the reference")
    if reference is None:
        reference = plain_outputs(bound, target, arrays)
        name = "TVM's own kernels"
    else:
        name = ""
    wanted = reference_outputs(reference, bound, None, arrays, target)
    end_to_end = compare(outputs, wanted.outputs)
    beginning = static_beginning(bound)
    part = None
    if beginning is not None:
        names = [str(param.name_hint) for param in beginning["main"].params]
        part = verify_static(beginning, {each: arrays[each] for each in names})
    allowed = max(tolerance, part.end_to_end_tolerance if part is not None else 0.0)
    is_right = all(difference.is_within(allowed) for difference in end_to_end)
    return VerifyReport(
        ok=is_right and (part is None or part.ok),
        tolerance=tolerance,
        reference=name or wanted.name,
        end_to_end=end_to_end,
        blocks=() if part is None else part.blocks,
        reproduction=None if part is None else part.reproduction,
        end_to_end_tolerance=allowed,
        allowance="" if part is None else part.allowance,
        outputs=tuple(outputs),
    )


def plain_outputs(
    mod: tvm.IRModule, target: Any, arrays: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Return what TVM's own kernels give, one for each operator."""
    return build_plain_machine(mod, target).run(**arrays)
