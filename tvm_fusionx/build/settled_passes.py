"""Passes of ``relay.build`` that our pipeline leaves nothing to do for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tvm

from tvm_fusionx.ecg.block_calls import is_in_blocks

# The pipeline ran them. The types of the model are inferred twice around each.
PASSES_WITH_NOTHING_LEFT = (
    "qnn.Legalize",
    "Legalize",
    "SimplifyInference",
    "EliminateCommonSubexpr",
    "CanonicalizeCast",
    "CanonicalizeOps",
    "FlattenAtrousConv",
)


@contextlib.contextmanager
def without_settled_passes(mod: tvm.IRModule) -> Iterator[None]:
    """Let a build of `mod` leave these passes out where all that it computes stands in blocks.

    Parameters
    ----------
    mod
        What the pipeline made. Where an operator stands outside of blocks, nothing is left out.
    """
    if not is_in_blocks(mod):
        yield
        return
    outer = tvm.transform.PassContext.current()
    left_out = [*map(str, outer.disabled_pass), *PASSES_WITH_NOTHING_LEFT]
    with tvm.transform.PassContext(
        opt_level=outer.opt_level,
        required_pass=list(map(str, outer.required_pass)),
        disabled_pass=list(dict.fromkeys(left_out)),
        instruments=list(outer.instruments),
        config=dict(outer.config.items()),
    ):
        yield
