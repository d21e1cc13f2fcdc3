"""What the user says about fusion: words that name operators, nodes of the model, or blocks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.operators import MAPPING_TYPES

logger = logging.getLogger(__name__)

BlocksByName = Callable[[], "Mapping[str, tuple[Node, ...]]"]
"""Plans without steering, and returns the blocks by name."""


def nodes_alone(
    calls: Sequence[Node],
    allow: AbstractSet[str],
    deny: AbstractSet[str],
    blocks_by_name: BlocksByName,
) -> dict[Node, str]:
    """Return the calls that stay in blocks of their own, each with why.

    Parameters
    ----------
    calls
        Those of the graph.
    allow
        Words; where there are any, only the calls that they name are fused.
    deny
        Words; the calls that they name are not fused.
    blocks_by_name
        Asked only for words that name no operator and no node.
    """
    if not allow and not deny:
        return {}
    named = _Names(calls, blocks_by_name)
    alone = {}
    if allow:
        allowed = {node for word in sorted(allow) for node in named.by(word)}
        alone = {node: f"{node.name or node.op} is not allowed" for node in calls}
        for node in allowed:
            del alone[node]
    for word in sorted(deny):
        alone.update({node: f"{word} stays alone" for node in named.by(word)})
    return alone


class _Names:
    def __init__(self, calls: Sequence[Node], blocks_by_name: BlocksByName) -> None:
        self.calls = calls
        self.blocks_by_name = blocks_by_name
        self._blocks: Mapping[str, tuple[Node, ...]] | None = None

    def by(self, word: str) -> Iterable[Node]:
        """Return the calls that a word names."""
        found: Iterable[Node] = [node for node in self.calls if word in (node.op, node.name)]
        if found or word in MAPPING_TYPES:
            return found
        if self._blocks is None:
            self._blocks = self.blocks_by_name()
        found = self._blocks.get(word, ())
        if not found:
            logger.warning("%s names no operator, node or block: it steers nothing", word)
        return found
