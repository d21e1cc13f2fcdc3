"""The GPU templates, in the order in which they are tried."""

from __future__ import annotations

from tvm_fusionx.schedules.gpu.default import GPU_DEFAULT
from tvm_fusionx.schedules.gpu.elementwise import GPU_ELEMENTWISE
from tvm_fusionx.schedules.gpu.rows import GPU_ROWS
from tvm_fusionx.schedules.gpu.sparse import GPU_SPARSE
from tvm_fusionx.schedules.gpu.tile import GPU_TILE
from tvm_fusionx.schedules.template import Template

# The most specialised first, the one that serves everything last.
GPU_TEMPLATES: tuple[Template, ...] = (
    GPU_SPARSE,
    GPU_ROWS,
    GPU_TILE,
    GPU_ELEMENTWISE,
    GPU_DEFAULT,
)
