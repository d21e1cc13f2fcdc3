"""What a template makes of a block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_fusionx.schedules.template import Knobs, Match, Template
from tvm_fusionx.tir.block import BlockInfo


def why_not(template: Template, info: BlockInfo) -> str | None:
    """Return why a template does not serve a block, or None."""
    match = template.match(info)
    return match if isinstance(match, str) else None


def matched(template: Template, info: BlockInfo) -> Match:
    """Return the match of a block that a template serves."""
    match = template.match(info)
    assert isinstance(match, Match), match
    return match


def knobs_of(template: Template, info: BlockInfo) -> Knobs:
    """Return the knobs of a block that a template serves."""
    return matched(template, info).knobs()


def emitted(template: Template, info: BlockInfo, values: Mapping[str, int]) -> Any:
    """Return the kernel of a block that a template serves."""
    return matched(template, info).emit(values)
