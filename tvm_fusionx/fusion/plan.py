"""The result of planning: which nodes form which block, and why every other edge was refused."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_fusionx.ecg.graph import Node
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
class Plan:
    """Blocks that cover every call of the graph once, and the decision on every edge."""

    blocks: tuple[Block, ...]
    edges: tuple[EdgeDecision, ...]

    @property
    def kernels(self) -> int:
        """Number of kernels that do work."""
        return sum(not block.is_reshape_only for block in self.blocks)

    @property
    def intermediate_bytes(self) -> int:
        """Bytes of the tensors that pass between kernels."""
        return sum(block.bytes_out for block in self.blocks if not block.is_reshape_only)
