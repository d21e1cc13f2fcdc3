"""Check a model's numbers block by block and end to end, and name the first block that is wrong.

Each block's kernel, from the very library that ``fx.build`` makes, runs on its *true* inputs: what
the blocks before it should have given. So a block answers for its own error only, and the first
wrong one in execution order is the culprit. What no block explains was done before fusion (import
or rewriting), or by the executor, and shows in the end-to-end row.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx._tvm.interrupts import interruptible
from tvm_fusionx._tvm.quick_calls import quick_calls
from tvm_fusionx.build.executors import VM, chosen_executor
from tvm_fusionx.build.fused_build import FusedBuild, build_fused
from tvm_fusionx.build.kernels import GraphNode
from tvm_fusionx.errors import TargetError
from tvm_fusionx.inputs import check_inputs, inputs_of
from tvm_fusionx.passes.pack_floats import HALF_SUMS
from tvm_fusionx.processors.targets import TargetLike
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.report.bench.stored_numbers import count_saturated, numbers_of, step_of, stored
from tvm_fusionx.report.profile.stepwise import StepwiseExecutor
from tvm_fusionx.report.verify.conditioning import library_conditioning
from tvm_fusionx.report.verify.defuse import ExposedModule, expose_blocks
from tvm_fusionx.report.verify.difference import (
    DEFAULT_TOLERANCE,
    WINOGRAD_TOLERANCE,
    Difference,
    measure_difference,
    worst,
)
from tvm_fusionx.report.verify.exact import exact_outputs
from tvm_fusionx.report.verify.reference import Reference, reference_outputs
from tvm_fusionx.report.verify.reproduction import write_reproduction
from tvm_fusionx.report.verify.unoptimised import (
    build_in_single,
    build_unoptimised,
    narrowest_type,
)
from tvm_fusionx.report.verify.verdict import EXACT, PLAIN, BlockVerdict, VerifyReport
from tvm_fusionx.report.verify.verify_machine import verify_machine
from tvm_fusionx.rewrite import Rule
from tvm_fusionx.schedules.winograd.template import WINOGRAD

logger = logging.getLogger(__name__)

DEFAULT_REPRODUCTION_FOLDER = "fusionx-reproduction"


@interruptible()
@quick_calls()
def verify(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    inputs: Mapping[str, Any],
    target: TargetLike,
    reference: Reference = None,
    bisect: bool = False,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    precision: str | None = None,
    records: str | Path | None = None,
    rules: Sequence[Rule] | None = None,
    reproduction: str | Path | None = None,
    on_stage: Callable[[str], None] | None = None,
) -> VerifyReport:
    """Compile `mod`, run it, and compare every block and every output with a reference.

    Parameters
    ----------
    mod, params
        The imported module, before fusion, as :func:`fx.from_onnx` returns it.
    inputs
        One array for each input, by name.
    target
        What to compile for; it must run on this machine.
    reference
        The end-to-end reference: None for plain TVM on `mod` at level 0, an ONNX file or
        ``ModelProto`` for ONNX Runtime, arrays by output, or a function from the inputs to the
        outputs.
    bisect
        Also write a standalone reproduction of the first wrong block, when there is one.
    tolerance
        Bound on the largest difference relative to the largest output; integers must be equal.
        Results in float16 may be off by one step, 2^-10 of the largest, those in bfloat16 by 2^-7.
        Outputs of a model with Winograd's convolutions are held to 1e-4 (docs/design/winograd.md).
        An output outside of that is right all the same when the model itself is not known so
        closely: when it is within its conditioning
        (:mod:`tvm_fusionx.report.verify.conditioning`). Blocks have no such excuse.
    precision, records, rules
        Type of what lies between blocks, tuning records and rewriting rules, as for
        :func:`fx.build`.
    reproduction
        Folder for the reproduction; ``fusionx-reproduction`` in the working directory by default.
    on_stage
        Told what is being done, in words; what is counted as ``N of M``.

    Returns
    -------
    VerifyReport

    Raises
    ------
    InputError, ShapeError
        An input's name, shape or dtype is wrong; a shape in the module is not known.
    TargetError
        `precision` sums up in halves, for which a step is no bound.
    """
    on_stage = _tell_nobody if on_stage is None else on_stage
    if precision == HALF_SUMS:
        raise TargetError(
            "precision",
            expected="float16 or bfloat16, whose blocks are held to one step of the type",
            found=repr(precision),
            next_step="Verify with float16, which rounds the same between blocks; what sums"
            " of halves add is bounded by tvm_fusionx.layout.half_sums.error_bound.",
        )
    mod = relay.transform.InferType()(mod)
    if chosen_executor(mod, None) == VM:
        return verify_machine(
            mod,
            params,
            check_inputs(inputs, inputs_of(mod, params)),
            target,
            reference,
            tolerance,
            {"records": records, "rules": rules},
            on_stage,
            lambda static, given: verify(
                static,
                None,
                given,
                target,
                None,
                bisect,
                tolerance=tolerance,
                records=records,
                rules=rules,
                reproduction=reproduction,
                on_stage=on_stage,
            ),
            _compare_outputs,
        )
    arrays = check_inputs(inputs, inputs_of(mod, params))
    on_stage("building")
    build = build_fused(
        mod,
        target,
        params=params,
        records=records,
        rules=rules,
        precision=precision,
        on_stage=on_stage,
    )
    exposed = expose_blocks(build.module)
    on_stage("computing each block's right outputs")
    true_values = _true_values(exposed, target, arrays)
    on_stage("running the blocks")
    ran = []
    for run in _run_blocks(build, exposed, true_values, arrays):
        ran.append(run)
        on_stage(f"running block {len(ran)} of {len(exposed.blocks)}")
    functions = {block.name: block.function for block in exposed.blocks}
    verdicts = tuple(_verdict(run, functions[run.node.name], target, tolerance) for run in ran)
    outputs = run_once(build.library, arrays)
    on_stage("computing the reference")
    wanted = reference_outputs(reference, mod, params, arrays, target)
    end_to_end = _compare_outputs(outputs, wanted.outputs)
    stored_as = precision or narrowest_type(mod)
    allowed, allowance = _allowed_end_to_end(
        build,
        end_to_end,
        tolerance,
        stored_as,
        lambda: _conditioning(mod, params, arrays, target, stored_as, on_stage),
    )
    ok = all(v.ok for v in verdicts) and all(d.is_within(allowed) for d in end_to_end)
    folder = None
    wrong, held_to = next(
        ((run, each.tolerance) for run, each in zip(ran, verdicts, strict=True) if not each.ok),
        (None, tolerance),
    )
    if bisect and wrong is not None:
        folder = write_reproduction(
            Path(reproduction or DEFAULT_REPRODUCTION_FOLDER),
            block=next(block for block in exposed.blocks if block.name == wrong.node.name),
            operands=wrong.operands,
            expected=wrong.expected,
            target=target,
            records=records,
            tolerance=held_to,
        )
    return VerifyReport(
        ok=ok,
        tolerance=tolerance,
        reference=wanted.name,
        end_to_end=end_to_end,
        blocks=verdicts,
        reproduction=folder,
        end_to_end_tolerance=allowed,
        allowance=allowance,
        outputs=tuple(outputs),
    )


def _tell_nobody(stage: str) -> None:
    pass


def _allowed_end_to_end(
    build: FusedBuild,
    end_to_end: tuple[Difference, ...],
    tolerance: float,
    stored_as: str,
    conditioning: Callable[[], float],
) -> tuple[float, str]:
    """Return what the outputs are held to, and why it is more than `tolerance` where it is."""
    allowed, why = tolerance, ""
    if any(entry.template == WINOGRAD.name for entry in build.log.entries):
        allowed = max(allowed, WINOGRAD_TOLERANCE)
        why = f"Winograd's convolutions are held to {WINOGRAD_TOLERANCE:g}"
    if step_of(stored_as) > allowed:
        allowed = step_of(stored_as)
        why = f"tensors in {stored_as} are held to one step, {allowed:.2g}"
    hopeless = not all(d.is_within(np.inf) for d in end_to_end)
    if hopeless or all(d.is_within(allowed) for d in end_to_end):
        return allowed, why if allowed > tolerance else ""
    known = conditioning()
    number = stored_as if step_of(stored_as) else "float"
    why = (
        f"the outputs move by {known:.2g} when each weight and input moves to a neighbouring "
        f"{number}"
    )
    return max(allowed, known), why


def _conditioning(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    arrays: dict[str, np.ndarray],
    target: Any,
    stored_as: str,
    on_stage: Callable[[str], None],
) -> float:
    on_stage("measuring the model's conditioning")
    library = build_in_single(mod, target, params)
    return library_conditioning(library, arrays, step_of(stored_as))


@dataclass(frozen=True)
class _BlockRun:
    """One block's kernel, what it was given, what it gave, and what it should have given."""

    node: GraphNode
    operands: list[np.ndarray]
    outputs: list[np.ndarray]
    expected: list[np.ndarray]
    steps: list[float]
    """How far results of the types they are stored in may be from each other, one by one."""
    saturated: int = 0
    """How many of the expected numbers are beyond the types that hold them."""
    stored_as: str = ""
    """The type that they are beyond of."""


def _true_values(
    exposed: ExposedModule, target: Any, inputs: dict[str, np.ndarray]
) -> dict[str, list[np.ndarray]]:
    """Return every block's right outputs, by block name, from plain TVM without optimisation."""
    values = run_once(build_unoptimised(exposed.module, target), inputs)
    return {
        block.name: values[block.first_output : block.first_output + block.number_of_outputs]
        for block in exposed.blocks
    }


def _run_blocks(
    build: FusedBuild,
    exposed: ExposedModule,
    true_values: dict[str, list[np.ndarray]],
    inputs: dict[str, np.ndarray],
) -> Iterator[_BlockRun]:
    """Run every kernel on its true inputs, in execution order, and yield those that are blocks."""
    executor = StepwiseExecutor(build.library)
    values: dict[tuple[int, int], Any] = {}
    for node in executor.graph.nodes:
        if not node.is_call:
            constant = executor.parameter(node)
            values[node.index, 0] = (
                executor.to_device(inputs[node.name]) if constant is None else constant
            )
            continue
        operands = [values[entry] for entry in node.inputs]
        outputs = executor.outputs_of(node, operands)
        expected = true_values.get(node.name)
        if expected is not None:
            # An output that is a reshape may leave the kernel under the reshape's own shape.
            beyond = {
                output.dtype: count
                for value, output in zip(expected, outputs, strict=False)
                if (count := count_saturated(value, output.dtype))
            }
            yield _BlockRun(
                node,
                list(map(numbers_of, operands)),
                list(map(numbers_of, outputs)),
                expected,
                [step_of(output.dtype) for output in outputs],
                sum(beyond.values()),
                next(iter(beyond), ""),
            )
            outputs = [
                stored(value, output.dtype) if value.shape == tuple(output.shape) else output
                for value, output in zip(expected, outputs, strict=False)
            ]
        for position, output in enumerate(outputs):
            values[node.index, position] = output


def _verdict(
    run: _BlockRun, function: relay.Function, target: Any, tolerance: float
) -> BlockVerdict:
    """Judge a block by plain TVM, and where they disagree by who is nearer to float64."""
    bounds = [max(tolerance, step) for step in run.steps]

    def are_within(differences: tuple[Difference, ...]) -> bool:
        return all(d.is_within(b) for d, b in zip(differences, bounds, strict=False))

    found, reference = _compare_outputs(run.outputs, run.expected), PLAIN
    if not are_within(found):
        exact = _exact_differences(run, function, target)
        if exact is not None and are_within(exact):
            found, reference = exact, EXACT
    return BlockVerdict(
        run.node.name,
        run.node.operators,
        worst(list(found)),
        are_within(found),
        reference,
        max(bounds, default=tolerance),
        run.saturated,
        run.stored_as,
    )


def _exact_differences(
    run: _BlockRun, function: relay.Function, target: Any
) -> tuple[Difference, ...] | None:
    try:
        exact = exact_outputs(function, run.operands, target)
    except tvm.TVMError as error:
        logger.info("no float64 version of block %s: %s", run.node.name, error)
        return None
    dtypes = [output.dtype for output in run.outputs]
    rounded = [value.astype(dtype) for value, dtype in zip(exact, dtypes, strict=True)]
    return _compare_outputs(run.outputs, rounded)


def _compare_outputs(
    computed: list[np.ndarray], wanted: list[np.ndarray]
) -> tuple[Difference, ...]:
    """Compare output by output; an output too many or too few is a difference of its own."""
    if len(computed) != len(wanted):
        problem = f"{len(computed)} outputs instead of {len(wanted)}"
        return (Difference(float("inf"), float("inf"), 0.0, 0, 0, 0, problem=problem),)
    return tuple(
        measure_difference(ours, theirs) for ours, theirs in zip(computed, wanted, strict=True)
    )
