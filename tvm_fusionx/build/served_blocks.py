"""Ask the templates, while planning, whether they serve a block."""

from __future__ import annotations

import logging

import tvm
from tvm.relay.backend.te_compiler import lower_to_primfunc

from tvm_fusionx.ecg.block_calls import is_block_call, post_order
from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.fusion.block_key import block_key
from tvm_fusionx.fusion.border import border_of
from tvm_fusionx.fusion.served import WhyUnserved
from tvm_fusionx.lowering import lowering
from tvm_fusionx.measuring.block_timer import as_it_will_run, block_module
from tvm_fusionx.processors.targets import TargetLike, is_cpu, resolve_target
from tvm_fusionx.schedules import UNSCHEDULED, Scheduled, schedule
from tvm_fusionx.schedules.default import DEFAULT
from tvm_fusionx.schedules.handed_over import handed_over
from tvm_fusionx.tir.indices import simplify_indices

logger = logging.getLogger(__name__)

CONVERTER = "relay.backend.tir_converter"
SLOW = (DEFAULT.name, UNSCHEDULED)


def why_unserved(target: TargetLike) -> WhyUnserved | None:
    """Return what tells why no fast template serves a block; None where nothing can be told.

    Parameters
    ----------
    target
        What is planned for: of CPUs the templates are asked, equal blocks once.
    """
    resolved = resolve_target(target)
    if not is_cpu(resolved):
        return None
    known: dict[str, str | None] = {}

    def why(graph: Graph, nodes: tuple[Node, ...]) -> str | None:
        border = border_of(graph, nodes, frozenset(graph.outputs))
        key = block_key(nodes, border)
        if key not in known:
            mod = block_module(nodes, border)
            known[key] = _why_slow(_scheduled(as_it_will_run(mod, resolved), resolved))
        return known[key]

    return why


def _why_slow(scheduled: Scheduled | None) -> str | None:
    """Return what kept fast templates from a block; None where one serves it.

    One that matched and failed leaves the block to another that was not made for it: rows would be
    computed of a product, element by element.
    """
    if scheduled is None:
        return None
    if scheduled.template not in SLOW and scheduled.fallback_reason is None:
        return None
    return scheduled.fallback_reason or f"{scheduled.template} alone takes it"


def _scheduled(mod: tvm.IRModule, target: tvm.target.Target) -> Scheduled | None:
    """Schedule the block of a module; None where it cannot be lowered alone."""
    block = next(expr.op for expr in post_order(mod["main"].body) if is_block_call(expr))
    with lowering(target):
        config = dict(tvm.transform.PassContext.current().config.items())
        with tvm.transform.PassContext(opt_level=3, config={**config, CONVERTER: "default"}):
            try:
                func = simplify_indices(lower_to_primfunc(block, target))
            except tvm.TVMError as error:  # An extern operator has no PrimFunc: TVM's serve it.
                logger.info("a block cannot be lowered alone: %s", str(error).strip()[-200:])
                return None
    scheduled = schedule(func, target)
    if scheduled.template not in SLOW:
        handed_over.put(func, target, scheduled)
    return scheduled
