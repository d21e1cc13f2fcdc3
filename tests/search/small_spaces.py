"""Spaces whose networks are as small as they can be, and still of every kind."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.search.space import Space
from tvm_fusionx.search.space_file import parse_space

TRANSFORMERS: dict[str, Any] = {
    "family": "transformer",
    "tokens": 8,
    "vocabulary": 20,
    "classes": 3,
    "layers": [1, 2, 3],
    "hidden": [16, 24],
    "heads": [2, 4],
    "feed_forward": [16, 32],
}

STAGE = {
    "stride": 2,
    "depth": [1, 2],
    "width": [8, 16],
    "kernel": [1, 3],
    "kind": ["dense", "depthwise"],
    "expansion": [1, 2],
}
CNNS: dict[str, Any] = {
    "family": "cnn",
    "channels": 1,
    "side": 8,
    "classes": 3,
    "stages": [STAGE, {**STAGE, "stride": 1}],
}

PRUNING = {"schemes": ["none", "filter", "block4x1"], "rates": [0.5, 0.75]}


def transformers() -> Space:
    return parse_space(TRANSFORMERS)


def cnns() -> Space:
    return parse_space(CNNS)


def one_stage(side: int = 8) -> Space:
    """Return CNNs of few kernels: what a test needs that builds or plans them."""
    stage = {**STAGE, "width": [8], "kind": ["dense"]}
    return parse_space({**CNNS, "side": side, "stages": [stage]})


def pruned() -> Space:
    return parse_space({**CNNS, "pruning": PRUNING})
