"""Explain how a model is fused: run the pipeline up to the plan, and read the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import tvm

from tvm_fusionx.build.executors import why_virtual_machine
from tvm_fusionx.build.fused_build import BUILT_FROM
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.build.parameters import check_module
from tvm_fusionx.build.pipeline import channels_at_once, phases, planner_options
from tvm_fusionx.ecg import Value
from tvm_fusionx.errors import InputError
from tvm_fusionx.fusion import Block, Plan
from tvm_fusionx.fusion.block_key import block_keys
from tvm_fusionx.fusion.planner import GREEDY
from tvm_fusionx.late_passes.flush_denormals import FLUSH, Denormals
from tvm_fusionx.operators import REORGANIZE
from tvm_fusionx.passes.fuse_by_mapping import FuseByMapping, fuse_module
from tvm_fusionx.passes.rewrite_graph import rewrite_module
from tvm_fusionx.passes.rewrite_quantized import rewrite_quantized
from tvm_fusionx.processors.targets import TargetLike
from tvm_fusionx.report.explain.entries import (
    BlockEntry,
    EdgeEntry,
    Finding,
    ProductEntry,
    Summary,
)
from tvm_fusionx.report.explain.explanation import Report
from tvm_fusionx.report.explain.legend import reason_code
from tvm_fusionx.report.explain.linters import find_oddities, lint_plan
from tvm_fusionx.report.explain.of_functions import joined
from tvm_fusionx.rewrite import Rule
from tvm_fusionx.rewrite.quantized import ProductChoice
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.lowering_log import LoweredBlock

MAIN = "main"
# The kind of finding that says why TVM's virtual machine runs the model.
VIRTUAL_MACHINE = "virtual-machine"


def explain(
    mod: tvm.IRModule,
    target: TargetLike,
    *,
    rules: Sequence[Rule] | None = None,
    denormals: Denormals = FLUSH,
    fuse: bool = True,
    planner: str = GREEDY,
    measure: bool | str | Path = False,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
    library: Any = None,
) -> Report:
    """Plan `mod` as ``fx.build`` does, and report every decision; nothing is compiled.

    Parameters
    ----------
    mod
        Module with static shapes; constants bound.
    target
        What it is planned for.
    rules, denormals, fuse, planner, measure, allow, deny
        As for :func:`tvm_fusionx.build`.
    library
        What ``fx.build`` returned for the same module, target and choices: the report then tells
        each kernel's template and generated code.

    Returns
    -------
    Report
        With ``text()``, ``to_json()`` and ``save_html(path)``.

    Raises
    ------
    ModelError, TargetError
        `mod` is no Relay module; TVM does not know the target.
    InputError
        `library` is none of ``fx.build``, or of another plan.
    """
    check_module(mod)
    resolved = resolve_target(target)
    chosen = planner_options(
        resolved, fuse=fuse, planner=planner, measure=measure, allow=allow, deny=deny
    )
    options = FuseByMapping(resolved, options=chosen).planner_options()
    why = why_virtual_machine(tvm.relay.transform.InferType()(mod))
    plans: dict[str, Plan] = {}
    applied: Counter[str] = Counter()
    chunk = channels_at_once(resolved)
    choices: list[ProductChoice] = []
    # Three passes are taken apart for what they know and do not leave in the module.
    order = phases(resolved, measure=measure)
    for step in (each for phase in order for each in phase.passes):
        if step.info.name == "tvm_fusionx.RewriteQuantized":
            mod, choices = rewrite_quantized(mod, resolved, step.why_slower)
        elif step.info.name == "tvm_fusionx.RewriteGraph":
            mod, applications = rewrite_module(mod, rules=rules, denormals=denormals, chunk=chunk)
            applied.update(application.rule for application in applications)
        elif step.info.name == "tvm_fusionx.FuseByMapping":
            mod, plans = fuse_module(mod, options)
        else:
            mod = step(mod)
    if MAIN in plans:
        report = report_plan(plans[MAIN], str(resolved), applied, choices)
        return report if library is None else _with_library(report, library)
    if library is not None:
        raise _not_of_this_plan("a model that TVM's virtual machine runs", "Leave `library` out.")
    if plans:
        message = (
            f"{why}: TVM's virtual machine runs the model; {len(plans)} static function"
            f"{'s are' if len(plans) > 1 else ' is'} planned, and what is between stands alone"
        )
        text = str(resolved)
        # Functions of a module have no order; shorter numbers come first.
        names = sorted(plans, key=lambda name: (len(name), name))
        # What was rewritten, and chosen, is told of all functions together.
        told = {name: report_plan(plans[name], text) for name in names}
        whole = joined(told, [Finding(VIRTUAL_MACHINE, message, ())])
        rewrites, products = tuple(applied.most_common()), _products(choices)
        return replace(whole, rewrites=rewrites, products=products)
    finding = Finding("not-a-graph", "main is more than a static graph: nothing is fused", ())
    return Report(str(resolved), Summary(0, 0, 0, 0, 0, 0), (), findings=(finding,))


def report_plan(
    planned: Plan,
    target: str,
    applied: Mapping[str, int] | None = None,
    choices: Sequence[ProductChoice] = (),
) -> Report:
    """Return the report of a plan.

    Parameters
    ----------
    planned
        Blocks and edge decisions of one graph.
    target
        For the heading.
    applied
        How often each rewriting rule was applied before the plan was made.
    choices
        What became of products of quantized numbers.
    """
    edges = tuple(
        EdgeEntry(
            edge.producer,
            edge.consumer,
            edge.producer_block,
            edge.consumer_block,
            edge.fused,
            reason_code(edge.reason) if edge.reason else "",
            "; ".join(part for part in (edge.reason.value, edge.detail) if part)
            if edge.reason
            else "",
            edge.bytes,
        )
        for edge in planned.edges
    )
    report = Report(
        target=target,
        summary=_summarise(planned),
        blocks=tuple(map(partial(_entry, planned), planned.blocks, block_keys(planned))),
        edges=edges,
        rewrites=tuple(Counter(applied or {}).most_common()),
        plan=str(planned.solution or ""),
        versions={"tvm": tvm.__version__},
        source=planned,
        products=_products(choices),
    )
    return _linted(report)


def _products(choices: Sequence[ProductChoice]) -> tuple[ProductEntry, ...]:
    return tuple(ProductEntry(each.name, each.op, each.reason or "") for each in choices)


def _with_library(report: Report, library: Any) -> Report:
    if not hasattr(library, BUILT_FROM):
        raise _not_of_this_plan(type(library).__name__, "Give what fx.build returned.")
    built = {node.name for node in KernelGraph.from_json(library.get_graph_json()).kernels}
    strange = built ^ {block.name for block in report.blocks if not block.is_reshape_only}
    if strange:
        raise _not_of_this_plan(
            f"another one: {min(strange)} is in one of both only",
            "Build the same module, for the same target, with the same choices.",
        )
    return with_schedules(report, library, getattr(library, BUILT_FROM)[1])


def _not_of_this_plan(found: str, next_step: str) -> InputError:
    expected = "what fx.build made of this module, for the graph executor"
    return InputError("library", expected=expected, found=found, next_step=next_step)


def with_schedules(report: Report, library: Any, log: Any) -> Report:
    """Return the report with what each block was scheduled by.

    Parameters
    ----------
    report
        Of the module that `library` was built from.
    library
        Graph-executor factory module.
    log
        The ``LoweringLog`` of the ``fx.lowering`` scope it was built in.
    """
    decided = {entry.name: entry for entry in log.entries}
    graph = KernelGraph.from_json(library.get_graph_json())
    return with_lowered(report, {node.name: decided.get(node.function) for node in graph.kernels})


def with_lowered(report: Report, by_block: Mapping[str, LoweredBlock | None]) -> Report:
    """Return the report with what was decided for each block, by the block's name."""
    blocks = []
    # Equal blocks share one function, and its text.
    numbers: dict[Any, int] = {}
    for block in report.blocks:
        entry = by_block.get(block.name)
        if entry is not None:
            tir = None if entry.func is None else numbers.setdefault(entry.func, len(numbers))
            block = replace(
                block,
                template=entry.template,
                fallback_reason=entry.fallback_reason,
                tir=tir,
                refusals=entry.refusals,
            )
        blocks.append(block)
    texts = tuple(func.script(show_meta=False) for func in numbers)
    return _linted(replace(report, blocks=tuple(blocks), tir=texts))


def _linted(report: Report) -> Report:
    of_plan = lint_plan(report.source) if report.source is not None else ()
    return replace(report, findings=find_oddities(report) + of_plan)


def _entry(planned: Plan, block: Block, structure: str) -> BlockEntry:
    return BlockEntry(
        name=block.name,
        operators=block.ops,
        nodes=block.node_names,
        mapping_type=block.mapping_type.value,
        bytes_in=block.bytes_in,
        bytes_out=block.bytes_out,
        bytes_saved=block.bytes_saved,
        flops=block.flops,
        is_reshape_only=block.is_reshape_only,
        labels=tuple(planned.labels[node] for node in block.nodes),
        structure=structure,
    )


def _summarise(planned: Plan) -> Summary:
    home = {node: block for block in planned.blocks for node in block.nodes}
    unfused: set[Value] = set()
    fused: set[Value] = set()
    for consumer, block in home.items():
        for value in consumer.operands:
            producer = home.get(value.node)
            if producer is None:
                continue
            # A free reshape hands on its operand: those bytes are counted once, at their kernel.
            if value.node.op not in REORGANIZE:
                unfused.add(value)
            if producer is not block and not producer.is_reshape_only:
                fused.add(value)
    return Summary(
        operators=len(home),
        kernels_unfused=sum(node.op not in REORGANIZE for node in home),
        kernels=planned.kernels,
        intermediate_bytes_unfused=sum(value.type.bytes for value in unfused),
        intermediate_bytes=sum(value.type.bytes for value in fused),
        flops=sum(block.flops for block in planned.blocks),
    )
