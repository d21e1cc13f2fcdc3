"""Values of bytes and who widens them: what is stored as bytes stays so.

A quantized tensor is stored once, in bytes. Each reader makes wider numbers of them where it reads
them, which costs an instruction beside its own; stored, they would be two or four times the size.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_fusionx.ecg.graph import Node, Value
from tvm_fusionx.fusion.candidate import Candidate
from tvm_fusionx.fusion.classify import is_elementwise
from tvm_fusionx.fusion.geometry import cuts_channels, cuts_columns, is_contraction
from tvm_fusionx.fusion.partition import Partition
from tvm_fusionx.fusion.reasons import Reason, Refusal
from tvm_fusionx.operators import REORGANIZE

# Element types of quantized values.
BYTES = ("int8", "uint8")

# Windows that keep channels apart, and the type of their sums where they multiply integers.
DEPTHWISE = "nn.contrib_depthwise_conv2d_NCHWc"
SUM = "int32"

# A cast, and a zero point that is taken away.
_STEPS = frozenset(["add", "cast", "subtract"])


def multiplies_integers(node: Node) -> bool:
    """Tell whether a call is a window that keeps channels apart and multiplies integers."""
    return node.op == DEPTHWISE and node.outputs[0].dtype == SUM


def are_widened(before: Sequence[Node], window: Node) -> bool:
    """Tell whether `before`, all that a block computes before `window`, widens bytes for it.

    Parameters
    ----------
    before
        Calls of one block whose results the window needs, operands before users.
    window
        A Many-to-Many call.
    """
    if not before or not multiplies_integers(window):
        return False
    if any(value.node in before for value in window.operands[1:]):
        return False
    first = before[0].operands[0]
    return first.dtype in BYTES and all(map(_is_step, before))


def why_not_widened(candidate: Candidate) -> Refusal | None:
    """Refuse to store a value of bytes in wider elements, which its readers make themselves."""
    for producer, consumer in candidate.edges():
        value = producer.outputs[0]
        if value.dtype not in BYTES or consumer.bytes_out <= value.bytes:
            continue
        if not is_elementwise(consumer):
            continue
        if _others_read(candidate, producer):
            detail = f"{consumer.op} widens {value.dtype}, which others read as it is"
            return Refusal(Reason.TOO_MANY_OUTPUTS, detail)
        if _joins_later_sum(candidate.partition, producer, consumer):
            detail = f"{consumer.op} adds {value.dtype} to later sums: stored before, not its sums"
            return Refusal(Reason.RECOMPUTED, detail)
        if _is_for_windows(candidate.partition, consumer):
            detail = f"a window that multiplies integers does {consumer.op} as it reads"
            return Refusal(Reason.RECOMPUTED, detail)
    return None


def _joins_later_sum(partition: Partition, stored: Node, reader: Node) -> bool:
    """Tell whether bytes made of sums meet bytes made of sums that come later.

    Of two branches that are quantized and added, or multiplied as a gate, one kernel ends where
    they meet: the later one. The bytes of the other are stored; with its quantization in that
    kernel too, its sums would be, four times the size. On the way they may be read several times,
    as a sigmoid and what it is multiplied by read them.
    """
    own = _sum_behind(stored[0])
    if own is None:
        return False
    meets = False
    came, pending = {stored[0]}, {reader}
    while pending:
        # Operands before users.
        node = min(pending, key=partition.index.__getitem__)
        pending.remove(node)
        if node[0].dtype in BYTES:
            continue
        if not _keeps_elements(node) or partition.graph.is_output(node):
            # That reads wider numbers, whoever makes them.
            return False
        came.add(node[0])
        others = [each for each in node.operands if each not in came and not each.is_constant]
        if not others:
            pending.update(partition.users(node))
        elif all(_is_later(partition, own, each) for each in others):
            meets = True
        else:
            return False
    return meets


def _is_later(partition: Partition, own: Node, value: Value) -> bool:
    later = _sum_behind(value, through_bytes=True)
    return later is not None and partition.index[later] > partition.index[own]


def _sum_behind(value: Value, *, through_bytes: bool = False) -> Node | None:
    """Return the product of integers that a value is made of, element by element, or None.

    With `through_bytes`, only where it is quantized in between. What was padded may be cut off, the
    axes may be others, and it may meet itself, as behind a sigmoid.
    """
    sums: set[Node] = set()
    seen, pending = {value}, [value]
    while pending:
        node = pending.pop().node
        if is_contraction(node) and node.outputs[0].dtype == SUM:
            sums.add(node)
            continue
        data = [each for each in node.operands if not each.is_constant]
        if not data or not _keeps_elements(node):
            return None
        pending += [each for each in data if each not in seen]
        seen.update(data)
    is_quantized = any(each.dtype in BYTES for each in seen)
    return sums.pop() if len(sums) == 1 and (is_quantized or not through_bytes) else None


def _keeps_elements(node: Node) -> bool:
    """Tell whether each result element is made of one element of each operand, in order."""
    if is_elementwise(node) or node.op in REORGANIZE:
        return True
    return cuts_columns(node) or cuts_channels(node)


def _others_read(candidate: Candidate, producer: Node) -> bool:
    """Tell whether calls outside a candidate read a result, or reshapes of it: the same memory."""
    members = set(candidate.nodes)
    pending = [producer]
    while pending:
        for user in candidate.partition.users(pending.pop()):
            if user.op in REORGANIZE:
                pending.append(user)
            elif user not in members:
                return True
    return False


def _is_step(node: Node) -> bool:
    others = node.operands[1:]
    return (
        node.op in _STEPS
        and node.outputs[0].dtype.startswith("int")
        and all(value.is_constant and value.type.elements == 1 for value in others)
    )


def _is_for_windows(partition: Partition, node: Node) -> bool:
    """Tell whether windows that multiply integers, and nothing else, read what a call widens."""
    pending = [node]
    while pending:
        node = pending.pop()
        users = partition.users(node)
        if not _is_step(node) or not users or partition.graph.is_output(node):
            return False
        pending += [user for user in users if not multiplies_integers(user)]
    return True
