"""Blocks are found that an earlier build decided of, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tvm import relay

from tests.relay_modules import TARGET, var
from tests.schedules.blocked_blocks import unscheduled
from tvm_fusionx import schedules
from tvm_fusionx.blocks.block import Block
from tvm_fusionx.blocks.kept_blocks import KeptBlocks
from tvm_fusionx.code_cache.folder import KernelFolder
from tvm_fusionx.late_passes.context import pass_context
from tvm_fusionx.records import Record
from tvm_fusionx.schedules import resolve_target

CPU = resolve_target(TARGET)
RECORD = Record("", "", "dot", {"tile_rows": 2}, seconds=1.0, default_seconds=2.0)


@pytest.fixture
def blocks(tmp_path: Path) -> Iterator[KeptBlocks]:
    """Return what a build looks up, and whose folder has a decision of :func:`product`."""
    folder = KernelFolder(tmp_path / "kernels")
    assert folder.why_unusable() is None
    with pass_context(CPU, "flush"):
        made = KeptBlocks(CPU, "flush", folder)
        first = product()
        made.look_up(first)
        assert first.decision is None
        assert folder.write_decision(first.key, first.decided("ab" * 32)) is None
        yield made


def product(rows: int = 8, record: Record | None = None) -> Block:
    return Block(unscheduled(relay.nn.matmul(var("x", rows, 6), var("w", 6, 32))), CPU, record)


def test_an_equal_block_is_found(blocks: KeptBlocks) -> None:
    again = product()
    blocks.look_up(again)
    assert again.decision is not None
    assert (again.decision.template, again.decision.kernel) == ("dot", "ab" * 32)
    kept = product(record=replace(RECORD, seconds=2.0))
    blocks.look_up(kept)
    assert kept.decision == again.decision


def test_another_block_or_record_is_not(blocks: KeptBlocks) -> None:
    others = [product(9), product(record=RECORD)]
    for other in others:
        blocks.look_up(other)
        assert other.decision is None
    assert len({other.key for other in others}) == 2


def test_a_backends_own_templates_are_asked_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: KeptBlocks
) -> None:
    added: dict[str, Any] = {"mine": (lambda target: True, schedules.FAMILIES["opencl"])}
    monkeypatch.setattr(schedules, "ADDED_FAMILIES", added)
    block = product()
    KeptBlocks(CPU, "flush", KernelFolder(tmp_path / "kernels")).look_up(block)
    assert (block.key, block.decision) == ("", None)
