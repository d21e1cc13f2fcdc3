"""Blocks whose products may be summed up in halves: the mark found, and what lies as halves.

A mark is a stage that copies weights and says how many terms a sum of halves has at most
(:mod:`tvm_fusionx.expressions.half_terms`). It is taken away before a template sees the block; the
function says what templates ask for instead: the terms, and which of its parameters are halves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.tir.numbers import divisors
from tvm_fusionx.tir.root_block import nests_of, with_root
from tvm_fusionx.tir.stored_types import with_other_buffers

HALF = "float16"

# Why a template does not sum up a block in halves.
NOT_IN_HALVES = "its products are not of halves in memory, or a sum has too many terms"

# Annotation of a marked stage, and attribute of a function: the most terms of a sum of halves.
HALF_TERMS = "half_terms"

# The same, where what is added to the products may be a term of a sum of halves, too.
HALF_ADDEND = "half_addend"

# Attribute of a function: the numbers of the parameters that lie in memory as halves.
HALVES = "fusionx.halves"


def longest_chain(terms: int, most: int) -> int:
    """Return into chains of how many terms a sum is taken apart, all as long, of `most` terms each.

    0 where a chain has no term.
    """
    return max((each for each in divisors(terms) if each <= most), default=0)


@dataclass(frozen=True)
class Mark:
    """What a block's mark says."""

    terms: int
    """Most products of a sum of halves; 0 without a mark."""
    adds: bool = False
    """Whether what is added to the products may be a term of the sum, too."""


def without_marks(func: Any) -> tuple[Any, Mark]:
    """Return a block without marks, and what they say.

    Parameters
    ----------
    func
        Unscheduled.
    """
    nests = nests_of(func)
    marks = {at: block for at, nest in enumerate(nests) if (block := _mark_of(nest)) is not None}
    if not marks:
        return func, Mark(0)
    replaced: dict[Any, Any] = {}
    for block in marks.values():
        source = block.body.value.buffer
        replaced[block.writes[0].buffer] = replaced.get(source, source)
    kept = [with_other_buffers(nest, replaced) for at, nest in enumerate(nests) if at not in marks]
    allocated = [each for each in func.body.block.alloc_buffers if each not in replaced]
    body = kept[0] if len(kept) == 1 else tir.SeqStmt(kept)
    found = [
        Mark(int(block.annotations[HALF_TERMS]), bool(block.annotations[HALF_ADDEND]))
        for block in marks.values()
    ]
    mark = Mark(min(each.terms for each in found), all(each.adds for each in found))
    return with_root(func, body, allocated), mark


def _mark_of(nest: Any) -> Any | None:
    while isinstance(nest, tir.For):
        nest = nest.body
    if not isinstance(nest, tir.BlockRealize) or HALF_TERMS not in nest.block.annotations:
        return None
    return nest.block


def told(func: Any, mark: Mark, stored: Mapping[int, str]) -> Any:
    """Return a block of float32 that says how its products may be summed up.

    Parameters
    ----------
    stored
        The types in memory of its parameters, by number.
    """
    halves = [number for number, dtype in stored.items() if dtype == HALF]
    return func.with_attrs({HALF_TERMS: mark.terms, HALF_ADDEND: mark.adds, HALVES: halves})


def adds_in_halves(func: Any) -> bool:
    """Tell whether what is added to products may be a term of a sum of halves."""
    return func.attrs is not None and bool(func.attrs.get(HALF_ADDEND, False))


def half_terms(func: Any, *buffers: Any) -> int:
    """Return how many products of elements of `buffers` may be summed up in halves.

    0 where none may: the block says nothing, or one of them does not lie in memory as halves.
    """
    attrs = func.attrs
    if attrs is None or HALF_TERMS not in attrs:
        return 0
    halves = [func.buffer_map[func.params[int(each)]].data for each in attrs[HALVES]]
    are_halves = all(any(each.data.same_as(data) for data in halves) for each in buffers)
    return int(attrs[HALF_TERMS]) if are_halves else 0
