from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.search.small_spaces import pruned, transformers
from tvm_fusionx.search.inheritance import Ancestor, nearest, shared_weights
from tvm_fusionx.search.pruned_spaces import pruned_anew
from tvm_fusionx.search.space import Candidate


def _network(layers: int = 2, hidden: int = 16, heads: int = 2) -> Candidate:
    def pick(name: str, options: tuple[Any, ...]) -> Any:
        wanted = {"layers": layers, "hidden": hidden, "heads": heads}
        return wanted.get(name.rpartition(".")[2], options[0])

    return transformers().walk(pick)


def _ancestor(candidate: Candidate, accuracy: float = 0.5) -> Ancestor:
    return Ancestor(candidate, accuracy, Path(f"{accuracy}"))


def test_zeros_and_heads_are_no_other_weights() -> None:
    candidate = pruned().sample(random.Random(0))
    child = pruned_anew(pruned(), candidate, random.Random(1))
    assert shared_weights(child, candidate) == 1.0
    assert shared_weights(_network(heads=4), _network()) == 1.0


def test_a_deeper_network_has_what_the_shallower_has() -> None:
    share = shared_weights(_network(layers=3), _network(layers=2))
    assert 0 < share < 1
    assert shared_weights(_network(layers=2), _network(layers=3)) > share
    assert shared_weights(_network(hidden=24), _network(hidden=16)) == 0
    assert shared_weights(_network(), pruned().sample(random.Random(0))) == 0


def test_the_nearest_has_most_and_then_is_most_accurate() -> None:
    far, near = _ancestor(_network(layers=1), 0.9), _ancestor(_network(heads=4), 0.4)
    better = _ancestor(_network(), 0.6)
    assert nearest(_network(), [far, near, better]) == better
    assert nearest(_network(), [far, near]) == near
    assert nearest(_network(), [far]) == far


@pytest.mark.parametrize("known", [[], [_ancestor(_network(hidden=24))]])
def test_where_nothing_is_shared_nothing_is_inherited(known: list[Ancestor]) -> None:
    assert nearest(_network(hidden=16), known) is None
