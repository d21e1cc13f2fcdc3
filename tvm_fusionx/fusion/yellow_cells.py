"""The one place where a yellow cell of the mapping-type table is decided.

A cost model answers from shapes. Where one kernel and two cost nearly the same, the device is asked
if the user allows measuring; else they become one kernel, which saves at least memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.fusion.candidate import Candidate
from tvm_fusionx.fusion.classify import mapping_type
from tvm_fusionx.fusion.cost_model import block_cost
from tvm_fusionx.fusion.device_costs import DEFAULT_COSTS, DeviceCosts
from tvm_fusionx.fusion.mapping import Verdict, combine
from tvm_fusionx.fusion.reasons import Reason, Refusal

# The model is right within a factor of about 1.3 on the kernels of the zoo: what it calls closer
# than this is a tie.
TIE = 1.3

MeasureBlock = Callable[[Graph, "tuple[Node, ...]"], float]
"""Builds and runs one block; microseconds, or infinity where it cannot be built or run."""


@dataclass(frozen=True)
class Comparison:
    """What one kernel takes, and what two take, in microseconds.

    Parameters
    ----------
    together, apart
        One kernel; the sum of both.
    is_measured
        Whether a device was asked.
    """

    together: float
    apart: float
    is_measured: bool = False

    @property
    def is_tie(self) -> bool:
        """Whether the two are closer than the model is exact."""
        low, high = sorted((self.together, self.apart))
        return high <= TIE * low

    def __str__(self) -> str:
        origin = "measured" if self.is_measured else "estimated"
        return f"{self.together:.1f} us as one kernel, {self.apart:.1f} us as two ({origin})"


@dataclass(frozen=True)
class YellowCells:
    """Decides on candidates whose mapping types alone do not.

    Parameters
    ----------
    graph
        Where the candidates are.
    costs
        Rates of the device.
    measure
        Asked about ties; None never measures.
    """

    graph: Graph
    costs: DeviceCosts = DEFAULT_COSTS
    measure: MeasureBlock | None = None

    def why_not(self, candidate: Candidate) -> Refusal | None:
        """Say why one kernel is slower than two, or None if it is not or no cell is yellow."""
        if not has_yellow_edge(candidate):
            return None
        found = self.compare(candidate)
        if found.is_tie and not found.is_measured:
            return None
        return None if found.together <= found.apart else Refusal(Reason.SLOWER, str(found))

    def compare(self, candidate: Candidate) -> Comparison:
        """Return the times of both ways, measured where they are a tie and measuring is allowed."""
        partition = candidate.partition
        found = Comparison(
            block_cost(candidate.nodes, candidate.border, self.costs).microseconds,
            sum(
                block_cost(unit.nodes, partition.border(unit), self.costs).microseconds
                for unit in (candidate.producer, candidate.consumer)
            ),
        )
        if self.measure is None or not found.is_tie:
            return found
        parts = [self._measured(unit.nodes) for unit in (candidate.producer, candidate.consumer)]
        measured = Comparison(self._measured(candidate.nodes), sum(parts), is_measured=True)
        # What cannot be built apart either is no news about the two together.
        return measured if math.isfinite(measured.apart) else found

    def _measured(self, nodes: tuple[Node, ...]) -> float:
        assert self.measure is not None
        return self.measure(self.graph, nodes)


def has_yellow_edge(candidate: Candidate) -> bool:
    """Tell whether the table leaves an edge between producer and consumer open."""
    return any(
        combine(mapping_type(producer), mapping_type(consumer))[0] is Verdict.DEPENDS
        for producer, consumer in candidate.edges()
    )
