"""Sparse products, dense ones and windows over images, with what stands before and behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm_fusionx.expressions.sparse_products import (
    GEOMETRY,
    STAGE,
    Geometry,
    Index,
    depth_of,
)
from tvm_fusionx.processors.integers import DotInstruction
from tvm_fusionx.schedules.parts.hand_written_kernel import (
    Store,
    gather_what_follows,
    replace_stages,
    schedule_around,
    stage_nests,
    storing,
)
from tvm_fusionx.schedules.sparse.gather import (
    Gathering,
    Source,
    find_source,
    in_place,
    turned_tiles,
)
from tvm_fusionx.schedules.sparse.kernel import Data, SparseKernel, StoreTile, Weights
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.schedules.windows.output_vectors import OutputVectors
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.sparse.product_of import dense_product, window_product
from tvm_fusionx.sparse.tiling import (
    Product,
    Tiling,
    best_tiling,
    chains_of,
    column_choices,
    group_part_choices,
    most_places,
    row_choices,
    task_column_choices,
    task_row_choices,
)
from tvm_fusionx.tir.block import BlockInfo, Stage, loads_of
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.indices import simplify_indices

KERNEL = "sparse"

# Axes of a matrix; an image in chunks has more.
MATRIX_AXES = 2

# Multiply-adds that pay for waking the threads of a pool.
LEAST_PARALLEL_SUMS = 49152


@dataclass(frozen=True)
class Sparse(Match):
    """A block around a sparse product."""

    stage: str
    """Name of the product's stage."""
    source: Source
    weights: Weights
    geometry: Geometry | None
    """None where it is a product of matrices."""
    product: Product

    @property
    def _must_turn(self) -> bool:
        """Whether the data does not lie in memory, where it would be read."""
        return self.product.is_in_place and not self.source.is_stored

    @property
    def _instruction(self) -> DotInstruction | None:
        return None if depth_of(self.weights.values.dtype) == 1 else self.info.cpu.dot

    def knobs(self) -> Knobs:
        """Return the places of a tile, the pieces of tasks, and what stays in the cache."""
        product, cpu = self.product, self.info.cpu
        best = best_tiling(product, cpu)
        turned = [1] if self._must_turn else [0, 1] if product.can_turn else [0]
        return {
            "tile_rows": Knob(best.rows, tuple(row_choices(product, cpu))),
            "tile_columns": Knob(best.columns, tuple(column_choices(product, cpu))),
            "task_rows": Knob(best.task_rows, tuple(task_row_choices(product, cpu))),
            "task_columns": Knob(best.task_columns, tuple(task_column_choices(product, cpu))),
            "group_parts": Knob(best.group_parts, tuple(group_part_choices(product, cpu))),
            "group_outermost": Knob(int(best.group_outermost), (0, 1)),
            "turned": Knob(int(best.is_turned or self._must_turn), tuple(turned)),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info, product = self.info, self.product
        tiling = self._tiling(values)
        sch = fresh_schedule(info.func)
        write = gather_what_follows(sch, info, self.stage, info.outputs[0])
        func = simplify_indices(sch.mod["main"])
        blocks = stage_nests(func)
        internal = {region.buffer.data for region in blocks[self.stage].writes}
        store = self._store(blocks[write], internal, tiling)
        parallel = info.cpu.cores > 1 and (
            product.entries * product.vectors * product.lanes * product.rows * product.columns
            >= LEAST_PARALLEL_SUMS
        )
        kernel = SparseKernel(
            product, tiling, self.weights, self._data_of(tiling), store, self._instruction
        )
        before = [name for name in blocks if name in info.upstream(self.stage)]
        operands = [self.weights.values, self.weights.index]
        if self.source.is_stored:
            operands.append(self.source.buffer)
        func = replace_stages(
            func,
            [*before, self.stage],
            write,
            operands,
            KERNEL,
            kernel.build(parallel=parallel),
        )
        return schedule_around(func, KERNEL, info.cpu)

    def _tiling(self, values: KnobValues) -> Tiling:
        product, cpu = self.product, self.info.cpu
        task_rows, task_columns = values["task_rows"], values["task_columns"]
        columns = min(values["tile_columns"], task_columns)
        most = max(1, most_places(product.vectors, cpu) // columns)
        rows = min(values["tile_rows"], task_rows, most)
        return Tiling(
            rows,
            columns,
            chains_of(rows * columns, product.vectors, cpu),
            task_rows,
            task_columns,
            values["group_parts"],
            bool(values["group_outermost"]),
            bool(values["turned"]),
        )

    def _data_of(self, tiling: Tiling) -> Any:
        if self.geometry is not None:
            return Gathering(self.source, self.geometry, self.product, tiling).data_of
        source, product = self.source, self.product

        def data_of(ib: Any, image: Any, top: Any, left: Any) -> Data:
            if not tiling.is_turned:
                return in_place(source.buffer, image, left, product.depth)

            def element(number: Any, column: Any, lane: Any) -> Any:
                return source.element(left + number, column + lane)

            return turned_tiles(ib, product, tiling, element, source.buffer.dtype)

        return data_of

    def _store(self, copy: Any, internal: Any, tiling: Tiling) -> StoreTile:
        if self.geometry is None:
            return _by_row(storing(copy, internal))
        _, chunks, _, columns, block = (int(each.dom.extent) for each in copy.iter_vars)
        vectors = OutputVectors(chunks, block, self.product.lanes // block)
        result = WindowResult.of(copy, columns, vectors, internal)
        if self.product.is_in_place:
            return _by_pixel(result, columns)
        return _by_window(result, tiling.columns)


def _by_row(write: Store) -> StoreTile:
    """Return what stores sums as rows of a matrix."""

    def store(
        sums: Any, places: list[int], image: Any, channel: Any, row: Any, column: Any
    ) -> None:
        for at, place in enumerate(places):
            sums.store(
                lambda row, lane, value: write(row, channel + lane, value), (column + at,), place
            )

    return store


def _by_pixel(result: WindowResult, width: int) -> StoreTile:
    """Return what stores sums of pixels that are counted through an image."""
    block = result.vectors.chunk_lanes

    def store(
        sums: Any, places: list[int], image: Any, channel: Any, row: Any, column: Any
    ) -> None:
        def at(pixel: Any) -> tuple[Any, Any]:
            return (column + pixel) // width, (column + pixel) % width

        result.store(sums, places, image, channel // block, at)

    return store


def _by_window(result: WindowResult, columns: int) -> StoreTile:
    """Return what stores sums of windows, row by row of a tile."""
    block = result.vectors.chunk_lanes

    def store(
        sums: Any, places: list[int], image: Any, channel: Any, row: Any, column: Any
    ) -> None:
        for number in range(len(places) // columns):

            def at(pixel: Any, number: int = number) -> tuple[Any, Any]:
                return row + number, column + pixel

            part = places[number * columns : (number + 1) * columns]
            result.store(sums, part, image, channel // block, at)

    return store


def _match(info: BlockInfo) -> Sparse | str:
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
    source = find_source(info, STAGE, data)
    if isinstance(source, str):
        return source
    shape = [int(each) for each in result.shape]
    depth = depth_of(values.dtype)
    entries, vectors, wide = (int(each) for each in values.shape)
    lanes = wide // depth
    reason = _why_not_multiplied(values, data, lanes, info.cpu.dot)
    if reason is not None:
        return reason
    if len(shape) == MATRIX_AXES:
        weights = Weights(values, index, Index.of(values.shape, index.shape, shape[1]))
        product = dense_product(
            shape[0], int(data.shape[1]) // depth, weights.parts.groups, entries, vectors, lanes
        )
        if not source.is_stored and not product.can_turn:
            return "its rows are computed in the same kernel, and too short to turn"
        return Sparse(info, STAGE, source, weights, None, product)
    geometry = Geometry.of(data.shape, stage.block.annotations[GEOMETRY])
    weights = Weights(values, index, Index.of(values.shape, index.shape, shape[1] * shape[4]))
    product = window_product(
        shape[0], geometry.in_words(depth), weights.parts.groups, entries, vectors, lanes
    )
    if product.is_in_place and not (source.is_stored or product.can_turn):
        return "its pixels are computed in the same kernel, and lie by channels"
    return Sparse(info, STAGE, source, weights, geometry, product)


def _why_not_multiplied(
    values: Any, data: Any, lanes: int, dot: DotInstruction | None
) -> str | None:
    """Return why no instruction multiplies data by values, or None."""
    types = str(data.dtype), str(values.dtype)
    if depth_of(values.dtype) == 1:
        return None
    if dot is None or dot.rows > 1 or dot.adds_in_words or types != (dot.data, dot.weights):
        return f"no instruction multiplies single rows of {types[0]} by {types[1]}"
    if dot.name_for(lanes) is None:
        return f"no instruction sums vectors of {lanes}"
    return None


def operands_of(stage: Stage, index: Any) -> tuple[Any, Any]:
    """Return the buffers of the values, whose place is an entry, and of the data."""
    (entry,) = (it.var for it in stage.iters if it.is_reduction)
    numbers = [buffer for buffer in stage.reads if buffer is not index]
    values = next(
        load.buffer
        for load in loads_of(stage.block.body.value)
        if load.indices[0].same_as(entry) and str(load.buffer.dtype) != "int32"
    )
    (data,) = (buffer for buffer in numbers if not buffer.same_as(values))
    return values, data


SPARSE = Template(KERNEL, _match)
