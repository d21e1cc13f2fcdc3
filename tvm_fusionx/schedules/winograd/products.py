"""Where a task of minimal filtering keeps its products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm_fusionx.schedules.parts.operand import chunk_stride


@dataclass(frozen=True)
class Products:
    """A flat buffer of vectors, one for each panel, chunk of it, tile and point.

    The points of a tile lie side by side for the transform of one panel after another. Where the
    input channels are summed part by part, the products of all panels are kept, and those of a
    register tile lie side by side: they are read and written once for each part.
    """

    points: int
    tiles: int
    chunks: int
    """Chunks of a panel."""
    lanes: int
    """Channels of a chunk."""
    panels: int
    are_summed_in_parts: bool

    @property
    def point_stride(self) -> int:
        """Elements from one point to the next, where they are summed in parts."""
        return chunk_stride(self.tiles * self.chunks * self.lanes)

    @property
    def size(self) -> int:
        """Elements of the buffer."""
        if self.are_summed_in_parts:
            return self.panels * self.points * self.point_stride
        return self.points * self.tiles * self.chunks * self.lanes

    def at(self, panel: Any, chunk: Any, tile: Any, point: Any) -> Any:
        """Return the place of a vector; `panel` counts those of the task."""
        if not self.are_summed_in_parts:
            return ((chunk * self.tiles + tile) * self.points + point) * self.lanes
        column = (tile * self.chunks + chunk) * self.lanes
        return (panel * self.points + point) * self.point_stride + column
