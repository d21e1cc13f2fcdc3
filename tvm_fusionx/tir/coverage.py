"""Which stages are computed whole when each is computed where, and as far as, it is read."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import arith, tir

from tvm_fusionx.tir.block import BlockInfo, Stage


def is_read_whole(info: BlockInfo, name: str) -> bool:
    """Tell whether computing what the readers of a stage need computes all of the stage.

    A reader that reads all of it does not suffice where the reader itself is needed in part only,
    as a softmax of which a slice is taken. Results count as needed whole.
    """
    stage = info.stages[name]
    return any(
        (reader in info.outputs or is_read_whole(info, reader))
        and _reads_all(info.stages[reader], stage)
        for reader in info.consumers[name]
    )


def _reads_all(reader: Stage, stage: Stage) -> bool:
    domains = {it.var: tvm.ir.Range(0, it.extent) for it in reader.iters}
    written = [buffer.data for buffer in stage.writes]
    return any(
        region.buffer.data in written and _covers(region, domains) for region in reader.block.reads
    )


def _covers(region: Any, domains: dict[Any, Any]) -> bool:
    """Tell whether the regions at all points of `domains` make up the whole buffer."""
    extents = [int(extent) for extent in region.buffer.shape]
    bounds = arith.estimate_region_strict_bound(region.region, domains, tir.const(True))
    if bounds is None:
        return False
    simplify = arith.Analyzer().simplify
    return all(
        int(simplify(bound.min_value)) <= 0 and int(simplify(bound.max_value)) >= extent - 1
        for bound, extent in zip(bounds, extents, strict=True)
    )
