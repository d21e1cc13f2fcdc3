"""``fx.build``: from a module, or a model for several shapes, to a library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm import relay
from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

from tvm_fusionx._tvm.interrupts import interruptible
from tvm_fusionx._tvm.quick_calls import quick_calls
from tvm_fusionx.build.executors import VM, chosen_executor, why_virtual_machine
from tvm_fusionx.build.fused_build import BUILT_FROM
from tvm_fusionx.build.memory import check_limit, memory_of_build, no_known_memory, parse_size
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.build.pipeline import pipeline
from tvm_fusionx.build.programs import Programs, Shapes, build_programs
from tvm_fusionx.build.settled_passes import without_settled_passes
from tvm_fusionx.build.vm_program import VmProgram, build_for_machine
from tvm_fusionx.errors import ModelError
from tvm_fusionx.fusion.planner import GREEDY
from tvm_fusionx.late_passes.flush_denormals import FLUSH, Denormals
from tvm_fusionx.lowering import lowering
from tvm_fusionx.processors.targets import Targets
from tvm_fusionx.rewrite import Rule
from tvm_fusionx.schedules import resolve_target


@interruptible()
@quick_calls()
def build(
    mod: Any,
    target: Targets,
    params: Mapping[str, Any] | None = None,
    records: str | Path | None = None,
    activation_images: bool = False,
    device: str | None = None,
    *,
    rules: Sequence[Rule] | None = None,
    precision: str | None = None,
    denormals: Denormals = FLUSH,
    fuse: bool = True,
    planner: str = GREEDY,
    measure: bool | str | Path = False,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
    shapes: Sequence[Shapes] | None = None,
    executor: str | None = None,
    memory_limit: str | int | None = None,
) -> GraphExecutorFactoryModule | Programs | VmProgram:
    """Compile a module to a graph-executor library, or for TVM's virtual machine.

    Parameters
    ----------
    mod
        Relay module, as from :func:`tvm_fusionx.from_onnx`; not changed. With `shapes` the ONNX
        file or model.
    target
        Target string or object; or several for AArch64, plainest first: a library with a version
        for each, of which a core runs the last whose features it has.
    params
        Values of parameters that are not bound in the module yet.
    records
        Tuning records: a file or directory; templates' defaults when None. How many blocks they
        cover, and what share of the time, is logged in one line.
    activation_images
        For OpenCL: whether tensors between kernels are images where both sides take whole pixels.
    device
        What `records` name the device that will run the model by: its records count before those of
        others. This machine by default, where it is of the target's kind.
    rules, precision
        Rewriting rules to apply, all when None; the type of what passes between blocks, and of
        weights. See :func:`pipeline`.
    denormals
        What numbers below the smallest normal one (1.2e-38 of float32) are: ``"flush"`` takes them
        for zero, in constants and in every kernel on a CPU, for many CPUs are many times slower
        with them; the caller's floating-point settings stay. ``"keep"`` computes with them.
    fuse
        Whether to fuse; without, every operator is its own block, as a control.
    planner
        ``"greedy"``, or ``"optimal"``: the fastest cover by legal blocks that a solver finds.
    measure
        Whether ties are measured on this machine; or the file that keeps the answers.
    allow, deny
        Names of operators, nodes or blocks: all that is fused, where there are any; what is not.
    shapes
        For several programs in one library, with one set of weights: for each of them the shapes of
        the inputs whose extents are open.
    executor
        ``"graph"``, or ``"vm"``, TVM's virtual machine, which runs what the data decides: shapes
        as of NonMaxSuppression, loops and branches. By default what the model needs; that it is the
        machine is logged with the reason.

    memory_limit
        Bytes, or a size such as ``"64MiB"``: a model is refused that needs more for weights,
        inputs, outputs and the arena of a bundle (:func:`tvm_fusionx.export_bundle`).

    Returns
    -------
    lib : tvm.relay.backend.executor_factory.GraphExecutorFactoryModule
        As from ``relay.build``; :func:`tvm_fusionx.profile` knows its kernels' templates, too. With
        `shapes`, or several targets, a :class:`tvm_fusionx.build.programs.Programs`, which runs
        what fits. For the machine a :class:`tvm_fusionx.build.vm_program.VmProgram`.

    Raises
    ------
    ModelError, ShapeError, TargetError, RecordError
        `mod` is no Relay module, or needs more memory than it may; the graph
        executor is asked for, and a shape is not known; the target is unknown; the records are not
        for it.
    """
    choices: dict[str, Any] = {
        "rules": rules,
        "precision": precision,
        "denormals": denormals,
        "fuse": fuse,
        "planner": planner,
        "measure": measure,
        "allow": allow,
        "deny": deny,
    }
    if memory_limit is not None:
        parse_size(memory_limit)
    if shapes is not None:
        check_importable(mod)
    bound = bind_parameters(mod, params) if shapes is None else mod
    if shapes is not None or isinstance(target, list | tuple):
        choices |= {"executor": executor, "records": records, "device": device}
        made = build_programs(bound, target, [{}] if shapes is None else shapes, **choices)
        if memory_limit is not None:
            _check_programs(made, memory_limit)
        return made
    if chosen_executor(bound, executor) == VM:
        if memory_limit is not None:
            raise no_known_memory(why_virtual_machine(relay.transform.InferType()(bound)))
        return build_for_machine(bound, target, None, records, device, **choices)
    blocks = pipeline(target, **choices)(bound)
    scope = lowering(target, records, device, activation_images, denormals, keep_code=True)
    with without_settled_passes(blocks), scope as log:
        library = relay.build(blocks, resolve_target(target))
    setattr(library, BUILT_FROM, (blocks, log))
    if memory_limit is not None:
        check_limit(memory_of_build(library, log), memory_limit)
    return library


def _check_programs(made: Programs | VmProgram, memory_limit: str | int) -> None:
    if isinstance(made, VmProgram):
        raise no_known_memory(made.reason)
    for build in made.builds:
        check_limit(memory_of_build(build.library, build.log), memory_limit)


def check_importable(model: Any) -> None:
    """Raise ModelError where programs are to be made of a module, whose shapes are known."""
    if isinstance(model, tvm.IRModule):
        raise ModelError(
            "mod",
            expected="an ONNX file or model, which has a program for each of the shapes",
            found="a Relay module, whose shapes are known",
            next_step="Give the file: fx.build('model.onnx', target, shapes=[...]).",
        )
