"""The part of a space in which nothing is pruned, and networks of it pruned layer by layer."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tvm_fusionx.search.space import Candidate, Choice, Option, Space
from tvm_fusionx.search.space_file import NO_PRUNING, PRUNING, PRUNING_METHOD


def unpruned(space: Space) -> Space | None:
    """Return the part of a space in which nothing is pruned; None where a layer always is.

    How weights come to their zeros is the first algorithm there, as it makes no difference.
    """
    part = space
    for name in (PRUNING, PRUNING_METHOD):
        for options in _options(part, name):
            kept = options[:1] if name == PRUNING_METHOD else (NO_PRUNING,)
            if kept[0] not in options:
                return None
            part = part.without(name, [each for each in options if each not in kept])
    return part


def is_pruned(candidate: Mapping[str, Any]) -> bool:
    """Tell whether a layer of a candidate is to get zeros."""
    return any(_is_symbol(n) and v != NO_PRUNING for n, v in candidate["choices"].items())


def methods_of(space: Space) -> tuple[str, ...]:
    """Return the algorithms that a space leaves open; none where it has no such decision."""
    return tuple(str(each) for options in _options(space, PRUNING_METHOD) for each in options)


def settled(space: Space, candidate: Candidate) -> Candidate:
    """Return a candidate with the first algorithm where it has nothing that one could prune."""
    methods = methods_of(space)
    if not methods or is_pruned(candidate):
        return candidate
    return {**candidate, "choices": {**candidate["choices"], PRUNING_METHOD: methods[0]}}


def pruned_anew(
    space: Space, candidate: Mapping[str, Any], generator: random.Random, method: str = ""
) -> Candidate:
    """Return a candidate of the same architecture, some of its layers pruned by chance.

    How many are is drawn first, so that few and all come up alike.

    Parameters
    ----------
    method
        The algorithm; that of the candidate by default.
    """
    before = candidate["choices"]
    share = generator.random()

    def pick(name: str, options: tuple[Option, ...]) -> Option:
        if name == PRUNING_METHOD and method:
            return method
        if not _is_symbol(name):
            return before[name]
        symbols = tuple(each for each in options if each != NO_PRUNING)
        is_kept = NO_PRUNING in options and generator.random() >= share
        return NO_PRUNING if is_kept or not symbols else generator.choice(symbols)

    return space.walk(pick)


def _is_symbol(name: str) -> bool:
    return name.rpartition(".")[2] == PRUNING


def _options(space: Space, name: str) -> list[tuple[Option, ...]]:
    """Return the options of all decisions of a name, each set of them once."""
    found: dict[tuple[Option, ...], None] = {}
    for item in space.items:
        for choice in [item] if isinstance(item, Choice) else item.choices:
            if choice.name.rpartition(".")[2] == name:
                found[choice.options] = None
    return list(found)
