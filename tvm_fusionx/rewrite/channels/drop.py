"""Drop the channels that are zero, or that nobody reads, from a graph."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.rewrite.channels.cutting import CannotCutError, cut
from tvm_fusionx.rewrite.channels.flow import Marks
from tvm_fusionx.rewrite.channels.following import Flows, follow
from tvm_fusionx.rewrite.channels.liveness import can_go, should_go, zero_channels
from tvm_fusionx.rewrite.cost import Cost, cost_of
from tvm_fusionx.rewrite.engine import Application

logger = logging.getLogger(__name__)

RULE = "drop_dead_channels"

# Channels that are computed at once, where no processor is known: the widest vector's.
CHUNK = 16


def drop_dead_channels(graph: Graph, chunk: int = CHUNK) -> list[Application]:
    """Leave out channels without which every result is the same; in place.

    A channel of a convolution or product goes if whoever adds it up reads zeros, or weighs it with
    zeros, and nothing else reads it. What a model takes and returns keeps its shape, and so does
    what any other operator reads.

    Parameters
    ----------
    graph
        Its constants are folded.
    chunk
        Channels that are computed at once: so many, or a half, a quarter and so on, go together.

    Returns
    -------
    applications
        None or one, whose nodes are the products that lost channels.
    """
    flows = follow(graph)
    zero = zero_channels(flows)
    possible = can_go(flows, zero)
    going = should_go(flows, possible=possible, zero=zero, chunk=chunk)
    _tell(flows, zero, possible, going)
    shorter = [node for node in flows.products if going[node[0]].any()]
    if not shorter:
        return []
    before = cost_of(graph.calls())
    try:
        cut(graph, flows, going)
    except CannotCutError as error:
        logger.warning("channels that nothing needs stay: %s", error)
        return []
    after = cost_of(graph.calls())
    gain = Cost(*(first - second for first, second in zip(before, after, strict=True)))
    names = tuple(node.name for node in shorter if node.name)
    return [Application(RULE, _label(shorter[0]), gain, names)]


def _tell(flows: Flows, zero: Marks, possible: Marks, going: Mapping[Value, np.ndarray]) -> None:
    """Log what goes from each product, and why no more does."""
    if not logger.isEnabledFor(logging.DEBUG):
        return
    for node in flows.products:
        value = node[0]
        channels, go, can = len(zero[value]), int(going[value].sum()), int(possible[value].sum())
        if go:
            logger.debug("%s: %d of %d channels go", _label(node), go, channels)
        if go < can:
            logger.debug(
                "%s: %d more could go, and stay: the others make no fewer chunks",
                _label(node),
                can - go,
            )
        dead = int(zero[value].sum())
        if dead > can:
            logger.debug(
                "%s: %d channels are zero, and %d stay: %s",
                _label(node),
                dead,
                dead - can,
                _why(flows, value),
            )


def _why(flows: Flows, value: Value) -> str:
    """Return why channels stay: where they end, or what they are tied to."""
    pending, seen = [value], {value}
    while pending:
        each = pending.pop(0)
        if each in flows.ends:
            return flows.ends[each]
        for flow in flows.of.values():
            for tie in flow.ties:
                for one, other in ((tie.first, tie.second), (tie.second, tie.first)):
                    if one is each and other not in seen:
                        seen.add(other)
                        pending.append(other)
    return "they are tied to others that are not zero"


def _label(node: Node) -> str:
    return node.name or repr(node)
