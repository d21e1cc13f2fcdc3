"""Sparse products on a GPU: dense ones and windows, with what stands before and behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.expressions.sparse_products import FLOAT, GEOMETRY, STAGE, Geometry, Index
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.default import ITEMS_KNOB, items_knob, schedule_alone
from tvm_fusionx.schedules.gpu.isolate import has_guard
from tvm_fusionx.schedules.gpu.planes import (
    COPY,
    Planes,
    bind_copy,
    planes_of_pixels,
    planes_of_rows,
    planes_of_windows,
)
from tvm_fusionx.schedules.gpu.sparse_kernel import (
    GpuSparseKernel,
    Operands,
    Write,
    at_most,
)
from tvm_fusionx.schedules.gpu.threads import DEFAULT_ITEMS
from tvm_fusionx.schedules.parts.hand_written_kernel import (
    gather_what_follows,
    replace_stages,
    stage_nests,
    storing,
)
from tvm_fusionx.schedules.sparse.gather import Source, find_source
from tvm_fusionx.schedules.sparse.template import MATRIX_AXES, operands_of
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.sparse.gpu_tiling import PlaneProduct, best_form, place_choices
from tvm_fusionx.tir.block import BlockInfo, collect_blocks, describe_stage
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.indices import simplify_indices
from tvm_fusionx.tir.root_block import nests_of, with_root

KERNEL = "gpu_sparse"
PLACES, IN_PLANES = "places", "planes"


@dataclass(frozen=True)
class GpuSparse(Match):
    """A block around a sparse product."""

    source: Source
    values: Source
    index: Any
    parts: Index
    geometry: Geometry | None
    """None where it is a product of matrices."""
    product: PlaneProduct
    planes: Planes
    """What the data is put in, where it is not read as it lies."""

    def knobs(self) -> Knobs:
        """Return the places of a tile, the work-items of a group, and where the data is read."""
        product, gpu = self.product, self.info.gpu
        form = best_form(product, gpu)
        return {
            PLACES: Knob(form.places, tuple(place_choices(product, gpu))),
            ITEMS_KNOB: items_knob(gpu),
            IN_PLANES: Knob(int(form.in_planes), (0, 1) if product.lying_step else (1,)),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernels: one that puts the data in planes, where need be, and the product."""
        info, gpu = self.info, self.info.gpu
        sch = fresh_schedule(info.func)
        write = gather_what_follows(sch, info, STAGE, info.outputs[0])
        func = simplify_indices(sch.mod["main"])
        blocks = stage_nests(func)
        planes = self.planes if values[IN_PLANES] else None
        held = None
        operands = [self.index]
        if planes is not None:
            held = tir.decl_buffer(planes.shape, FLOAT, COPY)
            operands.append(held)
        kernel = self._kernel(values, blocks[write], _written(blocks[STAGE]), held)
        before = [name for name in blocks if name in info.upstream(STAGE)]
        stored = [each.buffer for each in (self.source, self.values) if each.is_stored]
        func = replace_stages(
            func, [*before, STAGE], write, [*operands, *stored], KERNEL, kernel.build()
        )
        if planes is not None:
            body = tir.SeqStmt([planes.nest(held), *nests_of(func)])
            func = with_root(func, body, [*func.body.block.alloc_buffers, held])
        return _bound(func, gpu)

    def _kernel(
        self, values: KnobValues, copy: Any, internal: set[Any], held: Any
    ) -> GpuSparseKernel:
        return GpuSparseKernel(
            self.product,
            values[PLACES],
            values[ITEMS_KNOB],
            self._operands(held),
            _write(storing(copy, internal), self.geometry, self.product.lanes),
            is_vector=not has_guard(copy.body, copy.iter_vars[-1].var),
        )

    def _operands(self, held: Any) -> Operands:
        """Return what the kernel reads: planes that are held, or the data as it lies."""
        geometry, source = self.geometry, self.source.buffer
        row_step, place_step = 0, 1

        def data(image: Any, at: Any) -> Any:
            if held is not None:
                return tir.BufferLoad(held, [image, at])
            zeros = [tir.const(0, "int32")] * (len(source.shape) - 2)
            return tir.BufferLoad(source, [image, *zeros, at_most(at, self.product.planed)])

        def address(offset: Any) -> Any:
            if geometry is not None and not geometry.is_in_place:
                return offset
            if held is not None:
                return offset * self.planes.positions
            if geometry is None:
                return offset
            lanes = geometry.lanes
            chunk = geometry.height * geometry.width * lanes
            return tir.floordiv(offset, lanes) * chunk + tir.floormod(offset, lanes)

        if geometry is not None and not geometry.is_in_place:
            row_step = geometry.moves[0] * geometry.row_step
        elif geometry is not None and held is None:
            place_step = geometry.lanes
        return Operands(
            data, address, place_step, row_step, self.values.element, self.index, self.parts
        )


def _written(block: Any) -> set[Any]:
    return {region.buffer.data for region in block.writes}


def _write(write: Any, geometry: Geometry | None, lanes: int) -> Write:
    """Return what stores a number by image, first channel of its vector, row, column and lane."""

    def store(image: Any, channel: Any, row: Any, column: Any, lane: Any, value: Any) -> Any:
        if geometry is None:
            return write(column, channel + lane, value)
        if geometry.is_in_place:
            row, column = column // geometry.width, column % geometry.width
        return write(image, channel // lanes, row, column, lane, value)

    return store


def _bound(func: Any, gpu: Gpu) -> Any:
    """Return a function with work-items for the copy and for what is left besides the kernel."""
    # The kernel itself is not described: it is bound already.
    others = [block for block in collect_blocks(func) if block.name_hint != KERNEL]
    sch = fresh_schedule(func)
    for block in others:
        name = str(block.name_hint)
        if name == COPY:
            bind_copy(sch, gpu)
        else:
            schedule_alone(sch, name, describe_stage(block), gpu, DEFAULT_ITEMS)
    return sch.mod["main"]


def _match(info: BlockInfo) -> GpuSparse | str:
    stage = info.stages.get(STAGE)
    if stage is None:
        return "it has no sparse product"
    if any(each.is_reduction for each in info.stages.values() if each is not stage):
        return "it reduces something besides"
    if len(info.outputs) != 1:
        return f"it writes {len(info.outputs)} tensors, not one"
    (result,) = stage.writes
    index = next(buffer for buffer in stage.reads if str(buffer.dtype) == "int32")
    values, data = operands_of(stage, index)
    lanes = info.gpu.lanes
    if str(data.dtype) != FLOAT or str(values.dtype) != FLOAT:
        return f"it multiplies {data.dtype} by {values.dtype}"
    if int(values.shape[-1]) != lanes:
        return f"its vectors have {int(values.shape[-1])} lanes, not {lanes}"
    source, weights = find_source(info, STAGE, data), find_source(info, STAGE, values)
    if isinstance(source, str):
        return source
    if isinstance(weights, str):
        return weights
    shape = [int(each) for each in result.shape]
    channels = shape[1] * (1 if len(shape) == MATRIX_AXES else shape[-1])
    parts = Index.of(values.shape, index.shape, channels)
    if len(shape) == MATRIX_AXES:
        return _of_matrix(info, source, weights, index, parts)
    geometry = Geometry.of(data.shape, stage.block.annotations[GEOMETRY])
    if shape[-1] != lanes:
        return f"its result has chunks of {shape[-1]} channels, not {lanes}"
    if not geometry.is_in_place and not geometry.planar:
        return "its offsets are not those of planes"
    gathers = planes_of_pixels if geometry.is_in_place else planes_of_windows
    planes = gathers(source.element, shape[0], geometry)
    rows, columns = geometry.result
    if geometry.is_in_place:
        rows, columns = 1, rows * columns
    lying_step = geometry.lanes if geometry.is_in_place and source.is_stored else 0
    product = _product(weights, parts, (shape[0], rows, columns), planes, lying_step)
    return GpuSparse(info, source, weights, index, parts, geometry, product, planes)


def _of_matrix(
    info: BlockInfo, source: Source, weights: Source, index: Any, parts: Index
) -> GpuSparse:
    rows, length = (int(each) for each in source.buffer.shape)
    planes = planes_of_rows(source.element, rows, length, info.gpu.lanes)
    lying_step = 1 if rows == 1 and source.is_stored else 0
    product = _product(weights, parts, (1, 1, rows), planes, lying_step)
    return GpuSparse(info, source, weights, index, parts, None, product, planes)


def _product(
    weights: Source, parts: Index, places: tuple[int, int, int], planes: Planes, lying_step: int
) -> PlaneProduct:
    entries, vectors, lanes = (int(each) for each in weights.buffer.shape)
    planed = planes.shape[0] * planes.shape[1]
    return PlaneProduct(*places, parts.groups, entries, vectors, lanes, planed, lying_step)


GPU_SPARSE = Template(KERNEL, _match)
