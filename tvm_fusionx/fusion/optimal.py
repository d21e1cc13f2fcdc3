"""The fastest plan that a solver finds among legal blocks, by the cost model.

The blocks to choose from are all that several growths ever form, each in another order of seeds or
under tighter limits: every one of them has passed all checks. Which of them cover every call once,
at the least sum of costs, is a set partitioning problem, solved by HiGHS. Blocks that would wait
for each other in a circle are forbidden as they are found.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tvm_fusionx._tvm.presence import missing_package
from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.fusion.border import border_of
from tvm_fusionx.fusion.cost_model import block_cost
from tvm_fusionx.fusion.device_costs import DeviceCosts
from tvm_fusionx.fusion.growth import (
    Growth,
    SeedOrder,
    smallest_first,
    without_border_reshapes,
)
from tvm_fusionx.fusion.partition import Partition
from tvm_fusionx.fusion.plan import Solution

TIME_LIMIT_SECONDS = 30.0
# Tighter limits on operators, each giving other cuts of long chains.
SHORTER = (2, 3, 5, 8, 16)
# Rounds of forbidding circles; a plan has none after one or two.
MOST_ROUNDS = 20
# Of the solution; closer ones are the same within the model's exactness.
RELATIVE_GAP = 1e-4

Block = tuple[Node, ...]


def _largest_first(node: Node, place: int) -> tuple[int, ...]:
    return (-node.bytes_out, place)


def _from_the_start(_: Node, place: int) -> tuple[int, ...]:
    return (place,)


def _from_the_end(_: Node, place: int) -> tuple[int, ...]:
    return (-place,)


ORDERS: tuple[SeedOrder, ...] = (_largest_first, _from_the_start, _from_the_end)


def improve(growth: Growth, costs: DeviceCosts, time_limit_seconds: float) -> Solution:
    """Replace the blocks of a finished growth by a faster cover, if one is found.

    Parameters
    ----------
    growth
        The greedy plan, reshapes still inside their blocks; its partition is replaced.
    costs
        Rates of the device.
    time_limit_seconds
        Of the solver.

    Raises
    ------
    MissingDependencyError
        scipy is not installed.
    """
    graph, calls = growth.graph, growth.partition.calls
    greedy = [unit.nodes for unit in growth.partition.units]
    blocks = legal_blocks(growth)
    price = {block: _cost(graph, block, costs) for block in blocks}
    greedy_us = sum(price[block] for block in greedy)
    kept = Solution(greedy_us, greedy_us, 0.0, len(blocks))
    if not calls:
        return kept
    deadline = time.monotonic() + time_limit_seconds
    forbidden: list[list[int]] = []
    for _ in range(MOST_ROUNDS):
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return replace(kept, note="the time limit ended the search: greedy plan kept")
        cover = cheapest_cover(calls, blocks, price, forbidden, remaining)
        if cover is None:
            return replace(kept, note="the solver found no plan in time: greedy plan kept")
        circle = _circle([blocks[number] for number in cover.chosen])
        if circle is not None:
            forbidden.append([cover.chosen[place] for place in circle])
            continue
        if cover.microseconds >= greedy_us:
            return replace(kept, bound_us=min(cover.bound_us, greedy_us))
        growth.partition = partition_of(graph, [blocks[number] for number in cover.chosen])
        return replace(kept, found_us=cover.microseconds, bound_us=cover.bound_us)
    return replace(kept, note=f"circles after {MOST_ROUNDS} rounds: greedy plan kept")


def legal_blocks(growth: Growth) -> list[Block]:
    """Return every single call, and every block that one of several growths ever forms."""
    rules = growth.rules
    limits = rules.limits
    # Yellow cells are left to the solver, which sees the costs of both ways.
    variants = [(replace(rules, yellow_cells=None), order) for order in (smallest_first, *ORDERS)]
    variants += [
        (replace(rules, limits=replace(limits, operators=most)), smallest_first)
        for most in SHORTER
        if most < limits.operators
    ]
    found: dict[Block, None] = dict.fromkeys((node,) for node in growth.partition.calls)
    found.update(growth.formed)
    for variant, order in variants:
        other = Growth(growth.graph, variant, order)
        other.grow()
        found.update(other.formed)
    return list(found)


@dataclass(frozen=True)
class Cover:
    """What the solver answers.

    Parameters
    ----------
    chosen
        Numbers of the blocks, ascending.
    microseconds
        Their costs together.
    bound_us
        No cover costs less.
    """

    chosen: list[int]
    microseconds: float
    bound_us: float


def cheapest_cover(
    calls: Sequence[Node],
    blocks: Sequence[Block],
    price: Mapping[Block, float],
    forbidden: Iterable[Sequence[int]],
    time_limit_seconds: float,
) -> Cover | None:
    """Return the cheapest choice of blocks that holds every call once, or None in want of time.

    Parameters
    ----------
    calls
        What is to be covered.
    blocks, price
        What there is to choose from, and what each costs.
    forbidden
        Numbers of blocks that may not all be chosen together.
    time_limit_seconds
        After it, the best that is known.

    Raises
    ------
    MissingDependencyError
        scipy is not installed.
    """
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_matrix
    except ModuleNotFoundError as error:
        raise missing_package(error) from error
    row_of = {node: row for row, node in enumerate(calls)}
    pairs = [(row_of[node], column) for column, block in enumerate(blocks) for node in block]
    rows, columns = zip(*pairs, strict=True)
    shape = (len(calls), len(blocks))
    cover = csr_matrix((np.ones(len(pairs)), (rows, columns)), shape=shape)
    constraints = [LinearConstraint(cover, 1, 1)]
    for circle in forbidden:
        together = csr_matrix(
            (np.ones(len(circle)), ([0] * len(circle), list(circle))), shape=(1, len(blocks))
        )
        constraints.append(LinearConstraint(together, -np.inf, len(circle) - 1))
    costs = np.array([price[block] for block in blocks])
    answer = milp(
        costs,
        integrality=np.ones(len(blocks)),
        bounds=Bounds(0, 1),
        constraints=constraints,
        options={"time_limit": time_limit_seconds, "mip_rel_gap": RELATIVE_GAP},
    )
    if answer.x is None:
        return None
    chosen = [int(number) for number in np.flatnonzero(answer.x > 0.5)]
    total = float(costs[chosen].sum())
    bound = answer.mip_dual_bound
    return Cover(chosen, total, min(total, float(bound)) if bound is not None else 0.0)


def partition_of(graph: Graph, blocks: Sequence[Block]) -> Partition:
    """Return the units of a cover without circles."""
    partition = Partition(graph)
    for block in blocks:
        members = set(block)
        # An edge that no other path runs beside can always be drawn together; then the next.
        while len(partition.unit_of[block[0]].nodes) < len(block):
            first, second = next(
                (producer, consumer)
                for node in block
                for producer in {partition.unit_of[node]: None}
                for consumer in list(producer.successors)
                if consumer.nodes[0] in members and partition.is_convex(producer, consumer)
            )
            partition.merge(first, second)
    return partition


def _cost(graph: Graph, block: Block, costs: DeviceCosts) -> float:
    returned = frozenset(graph.outputs)
    return sum(
        block_cost(part, border_of(graph, part, returned), costs).microseconds
        for part in without_border_reshapes(graph, block)
    )


def _circle(blocks: Sequence[Block]) -> list[int] | None:
    """Return the numbers of blocks that wait for each other, or None."""
    home = {node: number for number, block in enumerate(blocks) for node in block}
    producers: list[set[int]] = [set() for _ in blocks]
    for number, block in enumerate(blocks):
        for node in block:
            for value in node.operands:
                other = home.get(value.node, number)
                if other != number:
                    producers[number].add(other)
    waiting = set(range(len(blocks)))
    pending = list(waiting)
    readers: list[list[int]] = [[] for _ in blocks]
    missing = [len(found) for found in producers]
    for number, found in enumerate(producers):
        for other in found:
            readers[other].append(number)
    pending = [number for number in waiting if not missing[number]]
    while pending:
        number = pending.pop()
        waiting.discard(number)
        for reader in readers[number]:
            missing[reader] -= 1
            if not missing[reader]:
                pending.append(reader)
    if not waiting:
        return None
    # Whoever still waits, waits for another that does: walking back must come round.
    walked: list[int] = []
    number = min(waiting)
    while number not in walked:
        walked.append(number)
        number = min(producers[number] & waiting)
    return walked[walked.index(number) :]
