"""The kernel of a convolution whose clusters calls share: codes are looked up.

Tasks share the rows, and need nothing of each other: a tile of rows is hashed segment by segment,
each code's cluster is looked up, and the products of each row, constants, are added up.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.tasks import tasks
from tvm_fusionx.schedules.parts.vectors import ramp
from tvm_fusionx.schedules.reuse.kernel import ROWS_A_TASK, ReuseKernel, _State


class KeptKernel(ReuseKernel):
    """Emits the kernel; what it is given is what :class:`ReuseKernel` is given."""

    def build(self, *, parallel: bool) -> Any:
        """Return the statement."""
        layer, ib = self.layer, self.ib
        self.image.allocate()
        self.clusters = self._integers("cluster", layer.segment_count * layer.rows)
        with ib.for_range(0, layer.groups, "group") as group:
            self.image.fill(group, parallel=parallel)
            rows = min(ROWS_A_TASK, layer.rows)
            with tasks(ib, [-(-layer.rows // rows)], parallel=parallel) as (piece,):
                # The last piece ends with the rows: some are computed twice, to the same numbers.
                first = tir.min(piece * rows, layer.rows - rows)
                self._piece(group, first, rows)
        return ib.get()

    def _piece(self, group: Any, first: Any, rows: int) -> None:
        ib, layer = self.ib, self.layer
        tile = min(self.tiling.hash_rows, rows)
        with ib.for_range(0, layer.segment_count, "number") as number:
            state = _State(number, layer.segment(number), None, None, None, None)
            with ib.for_range(0, rows // tile, "tile") as at:
                self._hash(group, state, first + at * tile, tile)
            if rows % tile:
                self._hash(group, state, first + rows - rows % tile, rows % tile)
        with ib.for_range(0, rows, "row") as row:
            self._row(group, first + row)

    def _place(self, group: Any, state: _State, row: Any, code: Any) -> None:
        """Look up the cluster of one row's segment."""
        found = tir.BufferLoad(self.operands.table, [state.number, code])
        self._set(self.clusters, state.number * self.layer.rows + row, found)

    def _made(self, number: Any, cluster: Any, channel: Any) -> Any:
        """Return a vector of the products of a cluster."""
        place = [number, cluster, ramp(channel, self.tiling.lanes)]
        return tir.BufferLoad(self.operands.known, place)
