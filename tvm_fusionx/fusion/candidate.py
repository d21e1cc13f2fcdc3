"""Two neighbouring units, looked at as one block."""

from __future__ import annotations

from functools import cached_property

from tvm_fusionx.ecg.flops import flops
from tvm_fusionx.ecg.graph import Node, Value
from tvm_fusionx.fusion.border import Border
from tvm_fusionx.fusion.classify import mapping_type
from tvm_fusionx.fusion.geometry import (
    MATRIX_PRODUCTS,
    cuts_channels,
    cuts_columns,
    is_contraction,
)
from tvm_fusionx.fusion.partition import Partition, Unit
from tvm_fusionx.operators import (
    CONTRACTIONS,
    PACKED_PRODUCTS,
    REORGANIZE,
    SPARSE_PRODUCTS,
    WINDOW_REDUCTIONS,
    MappingType,
)

# A call this small takes less time than starting a kernel for it: a result that stays in the first
# level cache, and arithmetic of a few microseconds on one core.
SMALL_BYTES = 1 << 14
SMALL_FLOPS = 1 << 20
# A chain is computed without register tiles: at the speed of reading weights, which suits a vector
# times a matrix, and at some GFLOP/s where weights are used more often than this. Of such products
# those of a few microseconds stay, which starting a kernel costs too.
SMALL_REUSE = 2
FLOPS_OF_A_USE = 2
SMALL_TILED_FLOPS = 1 << 14
# Two convolutions with their activations and a pool before them are ten.
SMALL_OPERATORS = 16

# What makes wider numbers of bytes, element by element: casts, and a zero point taken away.
BYTES = ("int8", "uint8")
WIDENS = frozenset(["add", "cast", "subtract"])

# Convolutions whose kernels cut padded channels off.
CUT_CHANNELS = frozenset(["nn.contrib_conv2d_NCHWc"])
# What puts their result back in order first; a reshape where it is in order.
IN_ORDER = frozenset(["layout_transform", "reshape"])

# Calls after a product up to the one that cuts padding off: a layout back in order, and that one.
LONGEST_CUT = 2


class Candidate:
    """A producer unit and a consumer unit that might be merged."""

    def __init__(self, partition: Partition, producer: Unit, consumer: Unit) -> None:
        self.partition = partition
        self.producer = producer
        self.consumer = consumer

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Calls of both, operands before users."""
        index = self.partition.index
        return tuple(sorted(self.producer.nodes + self.consumer.nodes, key=index.__getitem__))

    @cached_property
    def border(self) -> Border:
        """What both read and give together."""
        return self.partition.joint_border(self.producer, self.consumer)

    @cached_property
    def many_to_many(self) -> list[Node]:
        """The Many-to-Many calls of both."""
        return [node for node in self.nodes if mapping_type(node) is MappingType.MANY_TO_MANY]

    @cached_property
    def is_small_chain(self) -> bool:
        """Whether the stages may just follow each other in a kernel, so small is every call.

        Products, convolutions and pools only: squeeze-and-excite is such a chain. Norms stay whole
        row nests of their own, and weights in blocks are unpacked by kernels made for that.
        """
        return (
            len(self.nodes) <= SMALL_OPERATORS
            and all(
                (node.op in CONTRACTIONS and node.op not in PACKED_PRODUCTS | SPARSE_PRODUCTS)
                or node.op in WINDOW_REDUCTIONS
                for node in self.many_to_many
            )
            and all(
                node.bytes_out <= SMALL_BYTES and flops(node) <= _most_flops(node)
                for node in self.nodes
                if node not in self.widened_in_pools
            )
        )

    @cached_property
    def widened_in_pools(self) -> frozenset[Node]:
        """Calls that widen bytes for pools and nothing else: these do it as they read."""
        steps: set[Node] = set()
        for node in self.nodes:
            if node.op not in WIDENS:
                continue
            first, *others = node.operands
            is_step = all(value.is_constant and value.type.elements == 1 for value in others)
            if is_step and (first.dtype in BYTES or first.node in steps):
                steps.add(node)
        # What is read outside, or by the caller, is stored.
        steps -= {value.node for value in self.border.outputs}
        found: set[Node] = set()
        for node in reversed(self.nodes):
            if node in steps and all(
                user in found or user.op in WINDOW_REDUCTIONS for user in self.partition.users(node)
            ):
                found.add(node)
        return frozenset(found)

    @cached_property
    def stored(self) -> tuple[Value, ...]:
        """The results that a block of both would store: reshapes of one are the same memory."""
        members = set(self.nodes)
        stored: dict[Value, None] = {}
        for value in self.border.outputs:
            source = value
            while source.node in members and source.node.op in REORGANIZE:
                source = source.node.operands[0]
            if source.node in members:
                stored[source] = None
        return tuple(stored)

    def below(self, roots: list[Node]) -> set[Node]:
        """Return the calls of the candidate that read `roots`, directly or not."""
        found: set[Node] = set()
        sources = set(roots)
        for node in self.nodes:
            if any(value.node in sources or value.node in found for value in node.operands):
                found.add(node)
        return found

    def below_heavy(self) -> list[Node]:
        """Return the calls after the first Many-to-Many one, in order."""
        found = self.below(self.many_to_many)
        return [node for node in self.nodes if node in found]

    def is_below_reduction(self, node: Node) -> bool:
        """Tell whether a call reads a Many-to-Many result of the candidate that is no product."""
        reductions = [other for other in self.many_to_many if not is_contraction(other)]
        return node in self.below(reductions)

    def useful_result(self, product: Node) -> Node:
        """Return what is wanted of a product: itself, or the call that cuts padding off.

        Columns are cut off a matrix product, channels off a convolution put back in order.
        """
        return self.computed_whole(product)[-1]

    def computed_whole(self, product: Node) -> list[Node]:
        """Return a product and what follows it up to its useful result, which is the last."""
        path = [product]
        user = self._only_user(product)
        if product.op in CUT_CHANNELS and user is not None and user.op in IN_ORDER:
            path.append(user)
            user = self._only_user(user)
            cuts = user is not None and cuts_channels(user)
        else:
            cuts = product.op in MATRIX_PRODUCTS and user is not None and cuts_columns(user)
        return [*path, user] if cuts and user is not None else [product]

    def product_before(self, cut: Node) -> Node | None:
        """Return the product whose padding a call cuts off, if it does."""
        source = cut
        for _ in range(LONGEST_CUT):
            if not source.operands:
                return None
            source = source.operands[0].node
            whole = self.computed_whole(source)
            if len(whole) > 1 and whole[-1] is cut:
                return source
        return None

    def moved_by(self, node: Node) -> Node | None:
        """Return the call whose result `node` alone reads, through reshapes of it or directly."""
        while node.operands:
            node = node.operands[0].node
            if self._only_user(node) is None:
                return None
            if node.op not in REORGANIZE:
                return node
        return None

    def _only_user(self, node: Node) -> Node | None:
        users = self.partition.users(node)
        return users[0] if len(users) == 1 else None

    def above(self, sinks: list[Node]) -> list[Node]:
        """Return the calls of the candidate whose results `sinks` need, in order."""
        found: set[Node] = set()
        for node in reversed(self.nodes):
            if any(user in sinks or user in found for user in self.partition.users(node)):
                found.add(node)
        return [node for node in self.nodes if node in found]

    def edges(self) -> list[tuple[Node, Node]]:
        """Return the (producer call, consumer call) pairs between the two."""
        inside = set(self.producer.nodes)
        return [
            (value.node, node)
            for node in self.consumer.nodes
            for value in node.operands
            if value.node in inside
        ]


def _most_flops(node: Node) -> int:
    """Return how much arithmetic a call of a small chain may be."""
    if not is_contraction(node):
        return SMALL_FLOPS
    weights = max(value.type.elements for value in node.operands)
    return max(SMALL_TILED_FLOPS, min(SMALL_FLOPS, FLOPS_OF_A_USE * SMALL_REUSE * weights))
