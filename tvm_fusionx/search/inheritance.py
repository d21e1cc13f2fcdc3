"""Whose weights a network begins with: those of the trained one that has most of its layers.

As in Lamarckian evolution (Real et al., 2017; Elsken et al., 2019) a child does not learn anew what
its parent knows. A pruned network has all layers of the network that it was before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_fusionx.search.pruned_layers import layouts_of


@dataclass(frozen=True)
class Ancestor:
    """A network that was trained.

    Attributes
    ----------
    candidate
        What it is.
    accuracy
        What it reached.
    folder
        Where its training left its weights.
    """

    candidate: Mapping[str, Any]
    accuracy: float
    folder: Path


def nearest(candidate: Mapping[str, Any], known: Iterable[Ancestor]) -> Ancestor | None:
    """Return the network that shares most weights with a candidate; None where none shares any.

    Of several the most accurate, then the first.
    """
    ranked = [(shared_weights(candidate, each.candidate), each) for each in known]
    usable = [(share, each) for share, each in ranked if share > 0]
    if not usable:
        return None
    return max(usable, key=lambda pair: (pair[0], pair[1].accuracy))[1]


def shared_weights(child: Mapping[str, Any], parent: Mapping[str, Any]) -> float:
    """Return how much of a child's products' weights a parent has: same name, same shape."""
    if child["family"] != parent["family"]:
        return 0.0
    has = {(layout.name, layout.shape) for layout in layouts_of(parent)}
    sizes = {(layout.name, layout.shape): math.prod(layout.shape) for layout in layouts_of(child)}
    return sum(size for key, size in sizes.items() if key in has) / sum(sizes.values())
