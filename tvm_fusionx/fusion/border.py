"""What passes the border of a group of calls: the tensors it reads and the results it gives.

Borders are joined, never counted anew: a union's border follows from those of its parts, so growing
a block costs what passes its border and not what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.to_relay import is_inline_constant


@dataclass(frozen=True)
class Border:
    """What a kernel of some calls takes.

    Parameters
    ----------
    reads
        Tensors made elsewhere; constants that are written into the kernel do not count.
    outputs
        Results that are read elsewhere or returned, in order of their creation.
    """

    reads: frozenset[Value]
    outputs: tuple[Value, ...]

    @property
    def arguments(self) -> int:
        """Tensors that the kernel takes, results included."""
        return len(self.reads) + len(self.outputs)


def border_of(graph: Graph, nodes: Sequence[Node], returned: AbstractSet[Value]) -> Border:
    """Return the border of `nodes`.

    Parameters
    ----------
    graph
        Where they are.
    nodes
        Calls, operands before users.
    returned
        The graph's outputs.
    """
    members = set(nodes)
    reads = {
        value
        for node in nodes
        for value in node.operands
        if value.node not in members and not is_inline_constant(value)
    }
    made = [value for node in nodes for value in node]
    return Border(
        frozenset(reads), _read_outside(graph, made, returned, lambda node: node not in members)
    )


def joined(
    graph: Graph,
    producer: Border,
    consumer: Border,
    returned: AbstractSet[Value],
    is_outside: Callable[[Node], bool],
) -> Border:
    """Return the border of two groups as one.

    Parameters
    ----------
    graph
        Where they are.
    producer, consumer
        Their borders; no result of the consumer is read by the producer.
    returned
        The graph's outputs.
    is_outside
        Whether a call is in neither group.
    """
    reads = producer.reads | {value for value in consumer.reads if is_outside(value.node)}
    # The consumer's results stay results: the producer reads none of them.
    outputs = _read_outside(graph, producer.outputs, returned, is_outside) + consumer.outputs
    return Border(reads, outputs)


def _read_outside(
    graph: Graph,
    values: Sequence[Value],
    returned: AbstractSet[Value],
    is_outside: Callable[[Node], bool],
) -> tuple[Value, ...]:
    return tuple(
        value
        for value in values
        if value in returned
        or any(value in user.operands and is_outside(user) for user in graph.users(value.node))
    )
