"""Passes of ``relay.build`` that our pipeline leaves nothing to do for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import tvm

# What `relay.build` runs on a model whose operators all stand in blocks, and finds nothing to do:
# the pipeline ran them. The types of the model are inferred twice around each.
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
def without_passes(names: Sequence[str]) -> Iterator[None]:
    """Let builds of this scope leave out passes, beside those that the context leaves out."""
    outer = tvm.transform.PassContext.current()
    with tvm.transform.PassContext(
        opt_level=outer.opt_level,
        required_pass=list(map(str, outer.required_pass)),
        disabled_pass=list(dict.fromkeys([*map(str, outer.disabled_pass), *names])),
        instruments=list(outer.instruments),
        config=dict(outer.config.items()),
    ):
        yield
