"""Attention over any number of queries and keys: a softmax that is taken chunk by chunk.

The products and the softmax are found in the block's tensor expressions; the loops are laid out by
hand in :mod:`tvm_fusionx.schedules.attention.streamed_kernel`. What finishes the scores is applied
to their registers, and what follows the values to the rows that are written.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.attention.streamed_kernel import AttentionTiling, StreamedAttentionKernel
from tvm_fusionx.schedules.attention.structure import Softmax, find_softmax, inline_around_softmax
from tvm_fusionx.schedules.parts.hand_written_kernel import (
    gather_what_follows,
    replace_stages,
    schedule_around,
    stage_nests,
    storing,
)
from tvm_fusionx.schedules.parts.lanes import lanes_multiplied, rows_by_lanes
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.parts.register_tile import max_rows, panel_vectors
from tvm_fusionx.schedules.products.plan import MIN_BALANCE
from tvm_fusionx.schedules.template import (
    Knob,
    Knobs,
    KnobValues,
    Match,
    Template,
    UnschedulableError,
)
from tvm_fusionx.tir.block import BlockInfo, describe_block
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.indices import simplify_indices

KERNEL = "streamed_attention"
PRODUCTS = 2

# Fewer rows than this in a tile use each loaded key and value too seldom.
LEAST_ROWS = 4

# What storing a register tile costs, in rows multiplied.
TILE_COST = 0.5

# Rows whose softmax Arm takes side by side: it holds a sum and the largest score of each beside the
# constants of the exponential, which an instruction of x86 reads from memory.
ROWS_WEIGHED = 4

# Choices for tuning: chunks of 1 to 128 panels and blocks of 1 to 16 tiles, powers of two.
CHUNK_CHOICES = 8
BLOCK_CHOICES = 5


def default_tiling(softmax: Softmax, cpu: Cpu) -> AttentionTiling:
    """Return how an attention is divided where nothing was tuned."""
    lanes = cpu.lanes
    key_vectors = panel_vectors(softmax.columns, cpu)
    value_vectors = min(panel_vectors(softmax.width, cpu), -(-softmax.width // lanes))
    rows = best_rows(softmax.rows, most_rows(max(key_vectors, value_vectors), cpu))
    panel = key_vectors * lanes
    chunk = softmax.columns
    held = cpu.l1_bytes // 2 // FLOAT_BYTES
    if chunk * rows > held:
        chunk = max(panel, held // (2 * rows) // panel * panel)
    tiles = -(-softmax.rows // rows)
    # One tile at a time where its whole rows fit; else several share each chunk of keys.
    block_tiles = 1 if chunk == softmax.columns else max(1, min(tiles, held // (chunk * rows)))
    shares, read = shares_of(softmax, tiles, cpu), lanes_multiplied(cpu)
    weighed = None if read == 1 else ROWS_WEIGHED
    return AttentionTiling(
        lanes, rows, key_vectors, value_vectors, block_tiles, chunk, shares, read, weighed
    )


def most_rows(vectors: int, cpu: Cpu) -> int:
    """Return the most rows of a register tile of so many vectors."""
    most = max_rows(vectors, cpu)
    return most if lanes_multiplied(cpu) == 1 else min(most, rows_by_lanes(vectors, cpu))


def best_rows(rows: int, most: int) -> int:
    """Return the height of the tiles: few rows computed twice, and each key used often."""

    def gain(height: int) -> float:
        return rows / (-(-rows // height) * height) * height / (height + TILE_COST)

    return max(range(1, most + 1), key=gain)


def shares_of(softmax: Softmax, tiles: int, cpu: Cpu) -> int:
    """Return into how many parts the rows of a head are cut so that every core has work."""
    best, best_balance = 1, 0.0
    for shares in range(1, min(tiles, cpu.cores) + 1):
        tasks = softmax.heads * shares
        balance = tasks / (-(-tasks // cpu.cores) * cpu.cores)
        if balance > best_balance:
            best, best_balance = shares, balance
        if best_balance >= MIN_BALANCE:
            break
    return best


@dataclass(frozen=True)
class StreamedAttention(Match):
    """A block of two products with a softmax between them."""

    softmax: Softmax
    """What is found once all around it is inlined: of sizes only, the buffers are that schedule's.
    """

    def knobs(self) -> Knobs:
        """Return the rows of a tile, the tiles of a block, and the keys of a chunk."""
        softmax, cpu = self.softmax, self.info.cpu
        tiling = default_tiling(softmax, cpu)
        most = most_rows(max(tiling.key_vectors, tiling.value_vectors), cpu)
        panel = tiling.key_vectors * tiling.lanes
        chunks = {
            tiling.chunk,
            *(panel << step for step in range(CHUNK_CHOICES) if panel << step < softmax.columns),
        }
        blocks = {
            tiling.block_tiles,
            *(
                1 << step
                for step in range(BLOCK_CHOICES)
                if 1 << step <= -(-softmax.rows // tiling.rows)
            ),
        }
        return {
            "tile_rows": Knob(tiling.rows, tuple(range(1, most + 1))),
            "block_tiles": Knob(tiling.block_tiles, tuple(sorted(blocks))),
            "key_chunk": Knob(tiling.chunk, tuple(sorted(chunks))),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        sch = fresh_schedule(self.info.func)
        info = inline_around_softmax(sch, self.info)
        softmax = find_softmax(info)
        default = default_tiling(softmax, info.cpu)
        tiling = dataclasses.replace(
            default,
            rows=values["tile_rows"],
            block_tiles=values["block_tiles"],
            chunk=values["key_chunk"],
        )
        write = gather_what_follows(sch, info, softmax.values, info.outputs[0])
        func = simplify_indices(sch.mod["main"])
        blocks = stage_nests(func)
        softmax = find_softmax(describe_block(func, info.cpu))
        internal = {region.buffer.data for region in blocks[softmax.values].writes}
        kernel = StreamedAttentionKernel(softmax, tiling, storing(blocks[write], internal)).build(
            parallel=should_parallelise(info.stages.values(), info.cpu.cores)
        )
        stages = [softmax.scores, *softmax.between, softmax.values]
        func = replace_stages(func, stages, write, [], KERNEL, kernel)
        return schedule_around(func, KERNEL, info.cpu)


def _match(info: BlockInfo) -> StreamedAttention | str:
    if len(info.dots) != PRODUCTS:
        return "it has not two dot products"
    if len(info.outputs) != 1:
        return "it has several results"
    sch = fresh_schedule(info.func)
    try:
        return StreamedAttention(info, find_softmax(inline_around_softmax(sch, info)))
    except UnschedulableError as error:
        return str(error)


STREAMED_ATTENTION = Template("streamed_attention", _match)
