"""Products of bytes on registers that hold whole tiles: matrix products and convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.expressions.integer_products import CONVOLUTION_WEIGHT_AXES, DENSE_WEIGHT_AXES
from tvm_fusionx.processors.integers import WORD_BYTES
from tvm_fusionx.schedules.byte_tiles.blocks import best_block
from tvm_fusionx.schedules.byte_tiles.kernel import TileKernel, TileOperands
from tvm_fusionx.schedules.byte_tiles.shape import ProductShape
from tvm_fusionx.schedules.byte_tiles.tiling import TileTasks, tasks_of, why_not_tiles
from tvm_fusionx.schedules.parts.hand_written_kernel import (
    Store,
    gather_what_follows,
    replace_stages,
    schedule_around,
    stage_nests,
    storing,
)
from tvm_fusionx.schedules.parts.nest import Late, finish, info_of
from tvm_fusionx.schedules.parts.overlap_last_vector import move_last_vectors
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.rows.lane_reductions import split_lane_reductions
from tvm_fusionx.schedules.rows.template import MustBeAloneError, schedule_rows
from tvm_fusionx.schedules.template import (
    Knob,
    Knobs,
    KnobValues,
    Match,
    Template,
    UnschedulableError,
)
from tvm_fusionx.schedules.windows.isolate import weights_of
from tvm_fusionx.schedules.windows.structure import Window, window_of
from tvm_fusionx.tir.block import BlockInfo, Stage, describe_block
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.index_maps import dot_axes
from tvm_fusionx.tir.indices import simplify_indices
from tvm_fusionx.tir.inline import inline_spatial
from tvm_fusionx.tir.lent_outputs import lend_outputs, return_outputs
from tvm_fusionx.tir.numbers import divisors

KERNEL = "byte_tiles"

MATRIX_AXES = 2

# Bytes of a vector of a matrix's row that is gathered, at most.
GATHERED_BYTES = 64


@dataclass(frozen=True)
class BytesOnTiles(Match):
    """A block around one product of bytes with packed weights."""

    stage: Stage
    """The product."""
    data: Any
    """The buffer of its data."""
    shape: ProductShape
    """With all places in one row where that is the same."""
    window: Window | None
    """Where it is a convolution."""
    product: str
    """LLVM's name of the instruction."""
    has_rows: bool
    """Whether what follows is computed row by row behind it: reductions, several results."""

    def knobs(self) -> Knobs:
        """Return the places of a task and the parts of the channels."""
        work, shape = tasks_of(self.shape, self.info.cpu), self.shape
        assert self.info.cpu.tiles is not None
        tile = self.info.cpu.tiles.rows
        columns = {work.columns, shape.columns}
        if shape.rows == 1:
            columns |= {each * tile for each in (2, 4, 8, 16) if each * tile < shape.columns}
        rows = {work.rows, *divisors(shape.rows)}
        parts = {work.parts, *divisors(math.ceil(shape.outputs / self.info.cpu.tiles.columns / 2))}
        return {
            "task_rows": Knob(work.rows, tuple(sorted(rows))),
            "task_columns": Knob(work.columns, tuple(sorted(columns))),
            "channel_tasks": Knob(work.parts, tuple(sorted(parts))),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        name, tiles = self.stage.name, self.info.cpu.tiles
        assert tiles is not None
        func, info = self._prepared()
        before = info.producers[name]
        sch = fresh_schedule(func)
        last = _reader_beside(info, name) if self.has_rows else info.outputs[0]
        write = gather_what_follows(sch, info, name, last)
        func = simplify_indices(sch.mod["main"])
        blocks = stage_nests(func)
        reduce = blocks[name]
        sums = {region.buffer.data for region in reduce.writes}
        (gathering,) = before or (None,)
        weights = weights_of(reduce, self.data)
        operands = self._operands(weights, None if gathering is None else blocks[gathering])
        work = TileTasks(values["task_rows"], values["task_columns"], values["channel_tasks"])
        store = self._store(storing(blocks[write], sums))
        block = best_block(work.rows, work.columns, self.shape, info.cpu)
        kernel = TileKernel(self.shape, work, block, operands, tiles, self.product, store).build(
            parallel=should_parallelise(info.stages.values(), info.cpu.cores)
        )
        replaced = [each for each in (gathering, name) if each is not None]
        read = [weights] if gathering is not None else [weights, self.data]
        func = replace_stages(func, replaced, write, read, KERNEL, kernel)
        if not self.has_rows:
            return schedule_around(func, KERNEL, info.cpu)
        return move_last_vectors(return_outputs(_rows_after(func, info)))

    def _prepared(self) -> tuple[Any, BlockInfo]:
        """Return the block with what is cheap inlined, and what it is then."""
        info, name = self.info, self.stage.name
        sch = fresh_schedule(info.func)
        if self.has_rows:
            current = inline_spatial(sch, info)
            func = lend_outputs(sch.mod["main"], current)
            func = split_lane_reductions(func, info.cpu.lanes, keep=frozenset([name]))
        else:
            before = info.producers[name]
            for stage in info.upstream(name):
                if stage not in before:
                    sch.compute_inline(sch.get_block(stage))
            func = sch.mod["main"]
        return func, describe_block(func, info.processor)

    def _store(self, store: Store) -> Store:
        window, shape = self.window, self.shape
        assert self.info.cpu.tiles is not None
        columns = self.info.cpu.tiles.columns

        def stored(image: Any, row: Any, column: Any, tile: Any, lane: Any, value: Any) -> Any:
            if window is None:
                return store(column, tile * columns + lane, value)
            if shape.rows == 1 != window.rows:
                row, column = (
                    tir.floordiv(column, window.columns),
                    tir.floormod(column, window.columns),
                )
            return store(image, tile, row, column, lane, value)

        return stored

    def _operands(self, weights: Any, gathering: Any | None) -> TileOperands:
        """Return what the kernel reads, through the block that computes the data, if one does."""
        if self.window is None:
            return self._matrix(weights, gathering)
        return self._image(weights, gathering, self.window)

    def _matrix(self, weights: Any, gathering: Any | None) -> TileOperands:
        assert self.info.cpu.tiles is not None
        columns, width = self.info.cpu.tiles.columns, int(weights.shape[2])
        together = width // columns

        def place(tile: Any, kh: Any, kw: Any, term: Any) -> list[Any]:
            panel, within = tir.floordiv(tile, together), tir.floormod(tile, together)
            return [panel, tir.floordiv(term, WORD_BYTES), within * columns, 0]

        def data_place(image: Any, row: Any, column: Any, term: Any) -> list[Any]:
            return [column, term]

        if gathering is None:
            return TileOperands(self.data, weights, place, width * WORD_BYTES, data_place)
        lanes = math.gcd(self.shape.terms, GATHERED_BYTES)

        def gather(image: Any, row: Any, column: Any, number: Any, keep: Store, lane: Any) -> Any:
            redirect = _only_value(lane, keep)
            return storing(gathering, (), redirect)(column, number * lanes + lane, None)

        vectors = self.shape.terms // lanes
        stride = width * WORD_BYTES
        return TileOperands(self.data, weights, place, stride, data_place, vectors, gather, lanes)

    def _image(self, weights: Any, gathering: Any | None, window: Window) -> TileOperands:
        lanes = int(self.data.shape[-1])
        groups, width = int(weights.shape[4]), int(weights.shape[5])
        # Of a window of one pixel places are counted across rows.
        is_flat = self.shape.rows == 1 != window.rows
        columns, (down, along) = window.columns, window.stride

        def place(tile: Any, kh: Any, kw: Any, term: Any) -> list[Any]:
            chunk, four = tir.floordiv(term, WORD_BYTES * groups), tir.floordiv(term, WORD_BYTES)
            if self.shape.joined:
                chunk, kw = 0, chunk
            return [tile, chunk, kh, kw, tir.floormod(four, groups), 0, 0]

        def data_place(image: Any, row: Any, column: Any, term: Any) -> list[Any]:
            return [image, 0, row, column, term]

        def gather(image: Any, row: Any, column: Any, number: Any, keep: Store, lane: Any) -> Any:
            if is_flat:
                row, column = tir.floordiv(column, columns), tir.floormod(column, columns)
            if window.kernel == (1, 1):
                row, column = row * down, column * along
            at = (image, number, row, column, lane)
            if gathering is None:
                return keep(lane, tir.BufferLoad(self.data, list(at)))
            return storing(gathering, (), _only_value(lane, keep))(*at, None)

        stride = width * WORD_BYTES
        if not self.shape.gathers:
            return TileOperands(self.data, weights, place, stride, data_place)
        vectors = self.shape.terms // lanes
        return TileOperands(self.data, weights, place, stride, data_place, vectors, gather, lanes)


def _only_value(lane: Any, keep: Store) -> Callable[..., Any]:
    """Return what stores a value that a stage makes of a place for `lane`."""
    return lambda *place_and_value: keep(lane, place_and_value[-1])


def _match(info: BlockInfo) -> BytesOnTiles | str:
    tiles = info.cpu.tiles
    if tiles is None:
        return "the processor has no registers for tiles of bytes"
    products = [stage for stage in info.dots if stage.sums_integers]
    if len(info.dots) != 1 or len(products) != 1:
        return "it has not one product of packed integers"
    (stage,) = products
    others = {each.name for each in info.stages.values() if each.is_reduction} - {stage.name}
    if not others <= info.downstream(stage.name):
        return "it reduces something before its product, or beside it"
    before = info.producers[stage.name]
    if len(before) > 1:
        return "its weights are computed"
    found = _matrix_of(info, stage) or _image_of(info, stage)
    if isinstance(found, str):
        return found
    data, weights, shape, window = found
    has_rows = bool(others) or len(info.outputs) > 1
    if has_rows and window is not None:
        return "it reduces a window's result, or stores two"
    if before and not any(
        buffer.data.same_as(data.data) for buffer in info.stages[next(iter(before))].writes
    ):
        return "its weights are computed"
    product = tiles.name_for(str(data.dtype), str(weights.dtype))
    if product is None:
        return f"no instruction multiplies tiles of {data.dtype} by {weights.dtype}"
    reason = why_not_tiles(shape, info.cpu)
    if reason is not None:
        return reason
    return BytesOnTiles(info, stage, data, shape, window, product, has_rows)


def _reader_beside(info: BlockInfo, product: str) -> str:
    """Return the product's only reader, which may be one with it; the product where it is not."""
    readers = set(info.consumers[product])
    if len(readers) == 1 and not info.stages[(reader := readers.pop())].is_reduction:
        return reader
    return product


def _rows_after(func: Any, info: BlockInfo) -> Any:
    """Give what follows a finished kernel loops of its own, row by row."""
    alone: set[str] = set()
    for _ in range(len(info.stages) + 1):
        sch = fresh_schedule(func)
        current = info_of(sch, info)
        late: Late = []
        try:
            schedule_rows(sch, current, late, alone, set(current.stages) - {KERNEL})
        except MustBeAloneError as problem:
            alone.add(problem.stage)
            continue
        finish(late)
        return sch.mod["main"]
    raise UnschedulableError("no set of row nests fits")


Found = tuple[Any, Any, ProductShape, Window | None]


def _matrix_of(info: BlockInfo, stage: Stage) -> Found | str | None:
    """Return data, weights and shape of a matrix product; why it is none that fits, or None."""
    axes = dot_axes(stage)
    if axes is None or (len(axes.m), len(axes.n), len(axes.k), len(axes.batch)) != (1, 1, 1, 0):
        return None
    data = axes.left.buffer
    weights = next(each for each in stage.reads if each.data.same_as(axes.right.buffer.data))
    if len(weights.shape) != DENSE_WEIGHT_AXES or len(data.shape) != MATRIX_AXES:
        return None
    rows, columns = (stage.iters[axis[0]].extent for axis in (axes.m, axes.n))
    terms = stage.iters[axes.k[0]].extent * WORD_BYTES
    assert info.cpu.tiles is not None
    panels, words, width, depth = (int(each) for each in weights.shape)
    if [int(each) for each in data.shape] != [rows, terms] or depth != WORD_BYTES:
        return "its data is no matrix of words of four bytes"
    if (panels * width, words * depth) != (columns, terms) or width % info.cpu.tiles.columns:
        return f"its panels of {width} columns are no whole tiles"
    gathers = bool(info.producers[stage.name])
    return data, weights, ProductShape(1, 1, rows, terms, columns, gathers=gathers), None


def _image_of(info: BlockInfo, stage: Stage) -> Found | str:
    window = window_of(stage)
    if isinstance(window, str):
        return window
    weights, data = window.weights, window.data
    if not window.sums_channels or weights is None:
        return "its channels are not summed"
    if len(weights.shape) != CONVOLUTION_WEIGHT_AXES or int(weights.shape[-1]) != WORD_BYTES:
        return "its weights are no words of four bytes"
    if window.in_channels != int(data.shape[1]) * window.block_in:
        return "its channels are in groups"
    assert info.cpu.tiles is not None
    if window.block_out != info.cpu.tiles.columns:
        return f"its chunks of {window.block_out} channels are no tiles"
    terms = window.in_channels * WORD_BYTES
    # A picture of one chunk is read where it lies: neighbouring columns are side by side.
    is_read_in_place = (
        int(data.shape[1]) == 1 and window.kernel != (1, 1) and not info.producers[stage.name]
    )
    shape = ProductShape(
        window.batch,
        window.rows,
        window.columns,
        terms,
        window.out_blocks * window.block_out,
        window.kernel,
        window.stride,
        window.dilation,
        gathers=not is_read_in_place,
    )
    is_one_chunk = int(weights.shape[1]) == 1
    shape = shape.on_tiles(info.cpu.tiles) if is_one_chunk else shape.in_line
    words, whole = shape.step_bytes(info.cpu.tiles) // WORD_BYTES, int(weights.shape[4])
    if whole % max(words, 1) and window.kernel != (1, 1) and not is_one_chunk:
        return "its weights are not in the order of tiles"
    return data, weights, shape, window


BYTE_TILES = Template(KERNEL, _match)
