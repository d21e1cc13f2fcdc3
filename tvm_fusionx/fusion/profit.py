"""Is it worth making two units one kernel? Answered without a device, from shapes alone."""

from __future__ import annotations

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.fusion.attention import PRODUCT as BATCHED_PRODUCT
from tvm_fusionx.fusion.attention import are_attention
from tvm_fusionx.fusion.candidate import Candidate
from tvm_fusionx.fusion.classify import is_elementwise, mapping_type
from tvm_fusionx.fusion.gathering import are_gathered, is_channel_pool, window_that_gathers
from tvm_fusionx.fusion.geometry import (
    MATRIX_PRODUCTS,
    is_contraction,
    is_movement,
    reduces_each_element_once,
    row_reduction,
)
from tvm_fusionx.fusion.mapping import Verdict, combine
from tvm_fusionx.fusion.pairs import PairLimits, why_not_worth_pairing
from tvm_fusionx.fusion.pools import reads_tiles
from tvm_fusionx.fusion.reasons import Reason, Refusal
from tvm_fusionx.fusion.widened import are_widened, why_not_widened
from tvm_fusionx.operators import REORGANIZE, TRANSCENDENTALS, MappingType

BATCHED_INTEGERS = "fusionx.batched_integers"

# A chain of at most this many cheap operators may be computed again for every reader: it costs less
# than a kernel launch or a pass over memory.
CHEAP_OPERATORS = 4

# Movements that a matrix product's operand load can do by index arithmetic.
_PRODUCT_PROLOGUES = REORGANIZE | {"transpose", "strided_slice"}


def why_not_profitable(
    candidate: Candidate, pairs: PairLimits | None = None, *, by_channel: bool = True
) -> Refusal | None:
    """Say why fusing producer and consumer does not pay, or None if it does.

    `by_channel` tells whether the target has kernels that pool one channel at a time.
    """
    if candidate.is_small_chain:
        return None
    contractions = [node for node in candidate.nodes if is_contraction(node)]
    if are_attention(contractions):
        return _why_not_before_attention(candidate, *contractions)
    if pairs is not None and len(contractions) > 1:
        return why_not_worth_pairing(candidate.nodes, pairs)
    checks = (
        _why_not_by_table,
        _why_not_into_windows,
        _why_not_reread,
        _why_not_gathered,
        *([_why_not_behind_channel_pool] if by_channel else []),
        why_not_widened,
        _why_not_expanded,
    )
    for check in checks:
        refusal = check(candidate)
        if refusal is not None:
            return refusal
    return None


def _why_not_by_table(candidate: Candidate) -> Refusal | None:
    """Apply the mapping-type table, to the pairs of calls that the edge joins.

    Reductions over one set of rows are one loop nest, which the table's authors never fuse; that is
    our extension, and legality has proved it where a candidate reaches this check.
    """
    if candidate.many_to_many and all(
        row_reduction(node) is not None
        for node in candidate.many_to_many
        if not is_contraction(node)
    ):
        return None
    for producer, consumer in candidate.edges():
        first, second = mapping_type(producer), mapping_type(consumer)
        if reduces_each_element_once(consumer) and first is MappingType.ONE_TO_MANY:
            continue
        if are_gathered(candidate.above([consumer]), consumer) or reads_tiles(candidate, consumer):
            continue
        verdict, _ = combine(first, second)
        if verdict is Verdict.BREAK:
            return Refusal(Reason.MAPPING_TYPES, f"{first.value} then {second.value}")
    return None


def _why_not_into_windows(candidate: Candidate) -> Refusal | None:
    """Refuse work before an operator that reads each of its inputs many times."""
    for heavy in candidate.many_to_many:
        if reduces_each_element_once(heavy) or reads_tiles(candidate, heavy):
            continue
        before = candidate.above([heavy])
        if are_gathered(before, heavy) or are_widened(before, heavy):
            continue
        for node in before:
            if not _is_free_before(node, heavy):
                return Refusal(Reason.RECOMPUTED, f"{node.op} before {heavy.op}")
    return None


def _why_not_reread(candidate: Candidate) -> Refusal | None:
    """Leave what transposes a batched product to that product, which stores each element once.

    A product with weights reads its rows for every panel of columns. Heads, each a power of two of
    bytes from the next, fall on few sets of the caches then and push each other out.
    """
    for product in candidate.many_to_many:
        if product.op not in MATRIX_PRODUCTS or product.op == BATCHED_PRODUCT:
            continue
        for node in candidate.above([product]):
            source = candidate.moved_by(node) if node.op == "transpose" else None
            if source is not None and source.op == BATCHED_PRODUCT:
                detail = f"{node.op} of what {source.op} may store in that order"
                return Refusal(Reason.RECOMPUTED, detail)
    return None


def _why_not_gathered(candidate: Candidate) -> Refusal | None:
    """Refuse work before movements that a window gathers, and would not if they were not alone."""
    if all(is_movement(node) for node in candidate.producer.nodes):
        return None
    for producer, consumer in candidate.edges():
        window = window_that_gathers(candidate.partition, producer, consumer)
        if window is not None and window not in candidate.nodes:
            return Refusal(Reason.DOMAIN_CHANGES, f"{window.op} gathers what {consumer.op} moves")
    return None


def _why_not_behind_channel_pool(candidate: Candidate) -> Refusal | None:
    """Refuse work behind a pool of one channel at a time, which stores what it has compared.

    With anything behind it the pool is a nest of rows, which compares each window anew: 27 elements
    of 3 x 3 x 3, where axis by axis they are 6.
    """
    pools = [node for node in candidate.many_to_many if is_channel_pool(node)]
    for node in candidate.below(pools) if pools else ():
        if node.op not in REORGANIZE:
            return Refusal(Reason.NO_TEMPLATE, f"{node.op} behind a pool of whole channels")
    return None


def _why_not_before_attention(candidate: Candidate, scores: Node, values: Node) -> Refusal | None:
    """Refuse expensive work before attention's operands; cheap work is done where they are copied.

    Each core copies the operands of its heads once, or of its share of a head.
    """
    between = {scores, *candidate.below([scores])}
    for heavy in (scores, values):
        work = []
        for node in candidate.above([heavy]):
            if node in between or _is_free_before(node, heavy):
                continue
            work.append(node)
            if not _is_cheap_copy(node) or len(work) > CHEAP_OPERATORS:
                return Refusal(Reason.RECOMPUTED, f"{node.op} before {heavy.op}")
    return None


def _is_cheap_copy(node: Node) -> bool:
    """Tell whether a call changes each element of its largest operand at little cost."""
    largest = max(value.type.elements for value in node.operands)
    is_same = largest == node.outputs[0].elements
    return is_elementwise(node) and is_same and not _is_expensive(node)


def _is_free_before(node: Node, heavy: Node) -> bool:
    # Panels of integers are read as they lie.
    if heavy.op in MATRIX_PRODUCTS and heavy.op != BATCHED_INTEGERS:
        return node.op in _PRODUCT_PROLOGUES
    return node.op in REORGANIZE


def _why_not_expanded(candidate: Candidate) -> Refusal | None:
    """Refuse a producer whose values are broadcast, unless they are cheap or one a row."""
    work = [node for node in candidate.producer.nodes if not is_movement(node)]
    if not work:
        return None
    rows = {row_reduction(node) for node in candidate.many_to_many} - {None}
    for producer, consumer in candidate.edges():
        factor = consumer.outputs[0].elements / max(1, producer.outputs[0].elements)
        if factor <= 1 or consumer in candidate.many_to_many:
            continue
        followed = _followed_contraction(candidate) if is_movement(consumer) else None
        if followed is not None:
            detail = f"{producer.op} is free in the kernel of {followed.op}, {consumer.op} is not"
            return Refusal(Reason.DOMAIN_CHANGES, detail)
        if any(row is not None and producer.outputs[0].elements == row.count for row in rows):
            continue
        if len(work) <= CHEAP_OPERATORS and not any(_is_expensive(node) for node in work):
            continue
        return Refusal(Reason.RECOMPUTED, f"{producer.op} is read {factor:.0f} times an element")
    return None


def _followed_contraction(candidate: Candidate) -> Node | None:
    """Return a contraction that only the producer's work follows, so that its kernel can do it.

    That kernel stores what it computes, of one extent: it could not hold what the producer would
    be a part of once its values have been put into a larger tensor. What lies between the two may
    still be units of their own.
    """
    last = frozenset(candidate.producer.nodes)
    extent = max(node.outputs[0].elements for node in last)
    members, following = set(last), list(last)
    contractions = []
    for node in following:
        for value in node.operands:
            above, is_whole = value.node, value.type.elements == extent
            product = candidate.product_before(above)
            if is_contraction(above) and (is_whole or node in last):
                contractions.append(above)
            elif product is not None and is_whole:
                contractions.append(product)
                members.update(candidate.computed_whole(product)[1:])
            elif above not in members and is_whole and is_elementwise(above):
                members.add(above)
                following.append(above)

    def is_read_here_only(node: Node) -> bool:
        return all(user in members for user in candidate.partition.users(node))

    if not all(map(is_read_here_only, members - last)):
        return None
    return next(filter(is_read_here_only, contractions), None)


def _is_expensive(node: Node) -> bool:
    return node.op in TRANSCENDENTALS or mapping_type(node) is MappingType.MANY_TO_MANY
