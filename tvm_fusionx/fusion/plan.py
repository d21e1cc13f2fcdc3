"""The result of planning: which nodes form which block, and why every other edge was refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm_fusionx.ecg.graph import Node, Value
from tvm_fusionx.fusion.reasons import Reason
from tvm_fusionx.operators import MappingType


@dataclass(frozen=True)
class Block:
    """One group of operator calls that becomes one kernel.

    Parameters
    ----------
    name
        Unique name, from the block's dominant operators.
    nodes
        Its calls, operands before users.
    mapping_type
        Type of the block as a whole.
    bytes_in, bytes_out
        Bytes read from and written to memory, constants included.
    bytes_saved
        Bytes of intermediate results that no longer exist in memory.
    flops
        Arithmetic operations, each element of each operator once.
    is_reshape_only
        Whether no data moves, so that there is no kernel.
    """

    name: str
    nodes: tuple[Node, ...]
    mapping_type: MappingType
    bytes_in: int
    bytes_out: int
    bytes_saved: int
    flops: int
    is_reshape_only: bool

    @property
    def ops(self) -> tuple[str, ...]:
        """Operator names, operands before users."""
        return tuple(node.op for node in self.nodes)

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the model's own nodes, without repetition."""
        return tuple(dict.fromkeys(node.name for node in self.nodes if node.name))


@dataclass(frozen=True)
class EdgeDecision:
    """What became of one edge of the graph.

    Parameters
    ----------
    producer, consumer
        Labels of the two calls: the model's node name, or operator and number.
    producer_block, consumer_block
        Names of the blocks they are in.
    fused
        Whether both are in one block.
    reason, detail
        Why not, when they are not.
    bytes
        Size of the tensor on the edge.
    """

    producer: str
    consumer: str
    producer_block: str
    consumer_block: str
    fused: bool
    reason: Reason | None
    detail: str
    bytes: int


@dataclass(frozen=True)
class Solution:
    """What an optimising planner found, beside the greedy plan; microseconds by the cost model.

    Parameters
    ----------
    greedy_us
        All kernels of the greedy plan, one after the other.
    found_us
        Those of the plan that was taken: at most as much.
    bound_us
        What no plan of the same choice of blocks can be faster than.
    choices
        Legal blocks that there were to choose from.
    note
        Why the greedy plan was kept, where it was; empty otherwise.
    """

    greedy_us: float
    found_us: float
    bound_us: float
    choices: int
    note: str = ""

    @property
    def greedy_gap(self) -> float:
        """How much slower the greedy plan is than the one found, as a share of the latter."""
        return self.greedy_us / self.found_us - 1.0 if self.found_us else 0.0

    @property
    def unproved_gap(self) -> float:
        """How much faster a plan could still be, as a share of the one found; 0 is proved best."""
        return max(0.0, 1.0 - self.bound_us / self.found_us) if self.found_us else 0.0

    def __str__(self) -> str:
        words = (
            f"{self.found_us:.1f} us of {self.choices} legal blocks, greedy {self.greedy_us:.1f} us"
            f" (+{self.greedy_gap:.2%}), unproved {self.unproved_gap:.2%}"
        )
        return f"{words}; {self.note}" if self.note else words


@dataclass(frozen=True)
class Plan:
    """Blocks that cover every call of the graph once, and the decision on every edge."""

    blocks: tuple[Block, ...]
    edges: tuple[EdgeDecision, ...]
    solution: Solution | None = None
    """How good the plan is among all; only of an optimising planner."""

    labels: Mapping[Node, str] = field(default_factory=dict, repr=False)
    """What each call is called on the edges: the model's name for it where that is one call's."""

    outputs: tuple[Value, ...] = field(default=(), repr=False)
    """The graph's results."""

    steps: tuple[tuple[str, ...], ...] = field(default=(), repr=False, compare=False)
    """Every block that there was on the way, in the order in which blocks grew: labels of calls."""

    @property
    def kernels(self) -> int:
        """Number of kernels that do work."""
        return sum(not block.is_reshape_only for block in self.blocks)

    @property
    def intermediate_bytes(self) -> int:
        """Bytes of the tensors that pass between kernels."""
        return sum(block.bytes_out for block in self.blocks if not block.is_reshape_only)
