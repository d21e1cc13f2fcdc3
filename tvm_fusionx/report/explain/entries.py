"""The rows of a report: a block, an edge, a finding, the sums."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_fusionx.schedules import Refusal


@dataclass(frozen=True)
class BlockEntry:
    """One block of the plan: what becomes one kernel.

    Attributes
    ----------
    name
        Unique name, the same as in the compiled library's graph.
    operators
        Relay operators in the order they are computed.
    nodes
        Names of the model's own nodes that the block computes.
    mapping_type
        DNNFusion's mapping type of the whole block, such as ``"Many-to-Many"``.
    bytes_in, bytes_out
        Bytes read from and written to memory.
    bytes_saved
        Bytes of results that stay inside the block.
    flops
        Floating point operations.
    is_reshape_only
        Whether the block launches no kernel.
    template, fallback_reason
        What schedules the block and why nothing more specialised does, where known.
    labels
        What each operator is called on the report's edges.
    tir
        Number of the block's generated code in the report's `tir`, where known.
    structure
        Equal for blocks that become the same kernel; empty where unknown.
    seconds, share
        Time of the block alone, and its part of the sum over all kernels; where measured.
    refusals
        Why each template that was tried before does not serve the block; where built.
    """

    name: str
    operators: tuple[str, ...]
    nodes: tuple[str, ...]
    mapping_type: str
    bytes_in: int
    bytes_out: int
    bytes_saved: int
    flops: int
    is_reshape_only: bool = False
    template: str | None = None
    fallback_reason: str | None = None
    labels: tuple[str, ...] = ()
    tir: int | None = None
    structure: str = ""
    seconds: float | None = None
    share: float | None = None
    refusals: tuple[Refusal, ...] = ()

    def passed_over(self) -> list[str]:
        """Return a line for each reason, with the templates that gave it, in order of trying."""
        templates: dict[str, list[str]] = {}
        for refusal in self.refusals:
            templates.setdefault(refusal.reason, []).append(refusal.template)
        return [f"{', '.join(names)}: {reason}" for reason, names in templates.items()]


@dataclass(frozen=True)
class EdgeEntry:
    """One value passed between two operators, and why it does or does not reach memory.

    Attributes
    ----------
    producer, consumer
        Names of the operators' nodes.
    producer_block, consumer_block
        Names of their blocks.
    fused
        Whether both are in one block.
    reason, detail
        The reason code of a refusal and its particulars; empty on a fused edge.
    bytes
        Size of the value.
    """

    producer: str
    consumer: str
    producer_block: str
    consumer_block: str
    fused: bool
    reason: str
    detail: str
    bytes: int


@dataclass(frozen=True)
class ProductEntry:
    """A product of quantized numbers, and whether integers are multiplied.

    Attributes
    ----------
    name, operator
        Of the product in the model.
    reason
        Why it is computed in floats; empty where it is not.
    """

    name: str
    operator: str
    reason: str


@dataclass(frozen=True)
class Finding:
    """Something in the plan that a person should look at.

    Attributes
    ----------
    kind
        Stable code, such as ``"transpose-between-blocks"``.
    message
        One sentence.
    blocks
        Names of the blocks concerned.
    """

    kind: str
    message: str
    blocks: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """The plan in numbers.

    Attributes
    ----------
    operators
        Operator calls after rewriting.
    kernels_unfused, kernels
        Launches that do work: with every operator by itself, and with the plan's blocks.
    intermediate_bytes_unfused, intermediate_bytes
        Bytes of values that one kernel writes and another reads, in both cases.
    flops
        Floating point operations of the model.
    """

    operators: int
    kernels_unfused: int
    kernels: int
    intermediate_bytes_unfused: int
    intermediate_bytes: int
    flops: int

    @property
    def bytes_saved(self) -> int:
        """Bytes of intermediate results that are never written."""
        return self.intermediate_bytes_unfused - self.intermediate_bytes
