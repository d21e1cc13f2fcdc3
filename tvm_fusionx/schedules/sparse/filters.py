"""Windows whose filters leave zeros out one by one, with what stands before and behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm_fusionx.expressions.sparse_filters import (
    FILTER_STAGE,
    PLANES_OF_FILTERS,
    FilterIndex,
    FilterPlanes,
)
from tvm_fusionx.schedules.parts.hand_written_kernel import (
    gather_what_follows,
    replace_stages,
    schedule_around,
    stage_nests,
    storing,
)
from tvm_fusionx.schedules.sparse.filter_kernel import FilterKernel, FilterWeights
from tvm_fusionx.schedules.sparse.filter_planes import gather_planes
from tvm_fusionx.schedules.sparse.gather import Source, find_source
from tvm_fusionx.schedules.sparse.template import LEAST_PARALLEL_SUMS
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.sparse.filter_tiling import (
    FilterProduct,
    FilterTiling,
    best_filter_tiling,
    chains_for,
    part_choices,
    product_of_shapes,
    vector_choices,
)
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.indices import simplify_indices

KERNEL = "sparse_filters"
VECTORS, PARTS, OUTERMOST = "vectors", "parts", "tile_outermost"

# Axes of the values.
VALUE_RANK = 2


@dataclass(frozen=True)
class SparseFilters(Match):
    """A block around filters with zeros of their own."""

    source: Source
    weights: FilterWeights
    planes: FilterPlanes
    product: FilterProduct

    def knobs(self) -> Knobs:
        """Return the vectors of a tile, tasks that share the filters, and what stays."""
        product, cpu = self.product, self.info.cpu
        best = best_filter_tiling(product, cpu)
        return {
            VECTORS: Knob(best.vectors, tuple(vector_choices(product, cpu))),
            PARTS: Knob(best.parts, tuple(part_choices(product, cpu))),
            OUTERMOST: Knob(int(best.tile_outermost), (0, 1)),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        info, product = self.info, self.product
        vectors = values[VECTORS]
        chains = chains_for(vectors, info.cpu)
        tiling = FilterTiling(vectors, chains, values[PARTS], bool(values[OUTERMOST]))
        sch = fresh_schedule(info.func)
        write = gather_what_follows(sch, info, FILTER_STAGE, info.outputs[0])
        func = simplify_indices(sch.mod["main"])
        blocks = stage_nests(func)
        internal = {region.buffer.data for region in blocks[FILTER_STAGE].writes}
        sums = product.kernels * product.taps * product.rows * self.planes.geometry.result[1]
        parallel = info.cpu.cores > 1 and sums >= LEAST_PARALLEL_SUMS
        store = storing(blocks[write], internal)
        kernel = FilterKernel(
            product,
            tiling,
            self.planes,
            self.weights,
            self._gather,
            store,
            reads_distances=info.cpu.multiplies_by_lane,
        )
        before = [name for name in blocks if name in info.upstream(FILTER_STAGE)]
        operands = [self.weights.values, self.weights.index]
        if self.source.is_stored:
            operands.append(self.source.buffer)
        built = kernel.build(parallel=parallel)
        func = replace_stages(func, [*before, FILTER_STAGE], write, operands, KERNEL, built)
        return schedule_around(func, KERNEL, info.cpu)

    def _gather(self, ib: Any, image: Any, top: Any) -> Any:
        product, planes = self.product, self.planes
        at = (image, top)
        beyond = product.vectors * product.lanes + planes.part
        return gather_planes(ib, planes, self.source.element, at, product.lanes, beyond)


def _match(info: BlockInfo) -> SparseFilters | str:
    stage = info.stages.get(FILTER_STAGE)
    if stage is None:
        return "it has no filters with zeros of their own"
    if any(each.is_reduction for each in info.stages.values() if each is not stage):
        return "it reduces something besides"
    if len(info.outputs) != 1:
        return f"it writes {len(info.outputs)} tensors, not one"
    index = next(buffer for buffer in stage.reads if str(buffer.dtype) == "int32")
    numbers = [buffer for buffer in stage.reads if buffer is not index]
    values = next(buffer for buffer in numbers if len(buffer.shape) == VALUE_RANK)
    (data,) = (buffer for buffer in numbers if buffer is not values)
    source = find_source(info, FILTER_STAGE, data)
    if isinstance(source, str):
        return source
    planes = FilterPlanes.of(data.shape, stage.block.annotations[PLANES_OF_FILTERS])
    (result,) = stage.writes
    images, chunks, _, _, block = (int(each) for each in result.shape)
    parts = FilterIndex(chunks * block, chunks, planes.pattern_count, planes.taps)
    kernels = int(values.shape[0])
    # How many channels they read is not known here, and no more than there are kernels.
    shape = (chunks * block, planes.geometry.channels, block)
    product = product_of_shapes(images, planes, shape, (kernels, kernels), info.cpu)
    weights = FilterWeights(values, index, parts)
    return SparseFilters(info, source, weights, planes, product)


SPARSE_FILTERS = Template(KERNEL, _match)
