"""Which blocks of a build were scheduled by an earlier one."""

from __future__ import annotations

import tvm

from tvm_fusionx.blocks.block import Block, record_text, text_of
from tvm_fusionx.code_cache.folder import KernelFolder
from tvm_fusionx.code_cache.keys import block_keys
from tvm_fusionx.schedules import FAMILIES, family_of


class KeptBlocks:
    """What earlier builds decided of blocks, for one build.

    Parameters
    ----------
    target, denormals
        Of the build, whose context is the current one.
    folder
        Where decisions are kept.
    """

    def __init__(self, target: tvm.target.Target, denormals: str, folder: KernelFolder) -> None:
        self._folder = folder
        self._key_of = block_keys(target, denormals)
        # Templates of a backend that was added have sources elsewhere, which no key knows.
        self._knows_templates = family_of(target) is FAMILIES.get(str(target.kind.name))

    def look_up(self, block: Block) -> None:
        """Give a block its key, and what was decided of it where an earlier build did."""
        if not self._knows_templates:
            return
        block.key = self._key_of(text_of(block.source), record_text(block.record))
        block.decision = self._folder.read_decision(block.key)
