"""The kernel of a product of data rounded to bytes with packed weights: no float is unpacked.

First each row is rounded, block by block: a step, levels of 8 bits, and their sum. Then a task
streams some panels. A vector of words, four bytes of each row of a panel, is masked or shifted, and
one instruction multiplies it by four levels of the data and adds to 32-bit sums. A block's sums are
converted and scaled once; what the format adds to each weight of a block counts once, times the sum
of the data's levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tvm import tir

from tvm_fusionx.expressions.block_weights import (
    NIBBLE_BITS,
    NIBBLE_MASK,
    NIBBLES_ZERO,
    WORD_BYTES,
    block_numbers,
    magnitude,
    single,
    step_and_inverse,
)
from tvm_fusionx.processors.integers import SUM, DotInstruction
from tvm_fusionx.schedules.packed.kernel import Operands, emit_tiles
from tvm_fusionx.schedules.packed.tiling import PackedTiling
from tvm_fusionx.schedules.parts.hand_written_kernel import Store
from tvm_fusionx.schedules.parts.prefetch import elements_of_a_line, fetched_lines
from tvm_fusionx.schedules.parts.tasks import tasks
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import Vectors, broadcast, load, ramp, store

FLOAT, LEVEL = "float32", "int8"

# Words of a row that are written out in the loop over a block.
WORD_STEPS = 4

# How far ahead of its reading a lone row's weight is fetched. A product of 1536 x 576 from memory
# took 53 us with 2 KiB, 48 with 4 and 47 with 8, on Sapphire Rapids beside other work.
AHEAD_BYTES = 8192

# An instruction for unsigned bytes takes signed ones with their sign turned: 128 more.
SIGN_BIT = 0x80


class BytesKernel:
    """Emits the kernel.

    Parameters
    ----------
    operands
        Its buffers; levels ``[N / n, blocks, bytes / 4, n, 4]``.
    tiling
        How it is divided.
    instruction
        What multiplies bytes.
    lanes
        Floats of a vector of the data: they divide a block.
    store
        Stores a value at a row and a column of the product.
    """

    def __init__(
        self,
        operands: Operands,
        tiling: PackedTiling,
        instruction: DotInstruction,
        lanes: int,
        store: Store,
    ) -> None:
        self.operands, self.tiling, self.store = operands, tiling, store
        self.instruction, self.data_lanes = instruction, lanes
        self.blocks, self.words = (int(each) for each in operands.levels.shape[1:3])
        self.width = int(operands.levels.shape[3])
        self.size = block_numbers(operands.levels)
        levels = operands.levels
        total = math.prod(int(extent) for extent in levels.shape)
        # The levels as one row of bytes.
        self.bytes = tir.decl_buffer([total], levels.dtype, levels.name, data=levels.data)
        self.ib = tir.ir_builder.create()
        vectors = Vectors(self.ib, FLOAT)
        count = operands.rows * self.blocks
        self.steps = vectors.allocate("steps", count)
        self.totals = vectors.allocate("totals", count)
        self.levels = Vectors(self.ib, LEVEL).allocate("rounded", count * self.size)

    @property
    def _is_unsigned(self) -> bool:
        """Whether the instruction takes one operand without signs: the weights here."""
        return self.instruction.data != self.instruction.weights

    @property
    def _turns_sign(self) -> bool:
        return self._is_unsigned and not self.operands.has_nibbles

    def build(self, *, parallel: bool) -> Any:
        """Return the statement."""
        rows = self.operands.rows
        with tasks(self.ib, [rows], parallel=parallel and rows > 1) as (row,):
            self._round(row)
        emit_tiles(self.ib, self.operands, self.tiling, self._tile, parallel=parallel)
        return self.ib.get()

    def _round(self, row: Any) -> None:
        """Round a row: levels, steps, and what a weight's minimum is multiplied by."""
        lanes, size, ib = self.data_lanes, self.size, self.ib
        with ib.for_range(0, self.blocks, "block") as block:
            parts = [
                tir.BufferLoad(self.operands.data, [row, ramp(block * size + first, lanes)])
                for first in range(0, size, lanes)
            ]
            sizes = [magnitude(part) for part in parts]
            while len(sizes) > 1:
                half = len(sizes) // 2
                pairs = zip(sizes[:half], sizes[half : 2 * half], strict=True)
                sizes = [*(tir.Max(*pair) for pair in pairs), *sizes[2 * half :]]
            largest = Vectors(ib, SUM).allocate("largest", 1, "local")
            ib.emit(store(largest, 0, _reduced("smax", sizes[0]), 1))
            step, inverse = step_and_inverse(load(largest, 0, 1))
            inverses = Vectors(ib, FLOAT).allocate("inverse", 1, "local")
            ib.emit(store(inverses, 0, inverse, 1))
            whole = VectorSums(ib, 1, lanes, SUM)
            whole.fill()
            rounded = Vectors(ib, SUM).allocate("level", lanes, "local")
            place = row * self.blocks + block
            for number, part in enumerate(parts):
                scaled = tir.nearbyint(part * broadcast(load(inverses, 0, 1), lanes))
                ib.emit(store(rounded, 0, tir.Cast(f"{SUM}x{lanes}", scaled), lanes))
                level = load(rounded, 0, lanes)
                whole.put(0, whole.value(0) + level)
                narrow = tir.Cast(f"{LEVEL}x{lanes}", level)
                ib.emit(store(self.levels, place * size + number * lanes, narrow, lanes))
            total = _reduced("add", whole.value(0)).astype(FLOAT)
            ib.emit(store(self.steps, place, step, 1))
            ib.emit(store(self.totals, place, load(self.steps, place, 1) * total, 1))

    def _tile(self, panel: Any, row: Any) -> None:
        tiling, width = self.tiling, self.width
        places = tiling.rows * tiling.panels
        sums = VectorSums(self.ib, places, width, FLOAT)
        sums.fill()
        with self.ib.for_range(0, self.blocks, "block") as block:
            if self._is_lone:
                self._fetch(panel, block)
            whole = VectorSums(self.ib, places, width, SUM)
            whole.fill()
            for number in range(tiling.panels):
                self._multiply(whole, panel + number, row, block, number)
            for number in range(tiling.panels):
                self._scale(sums, whole, panel + number, row, block, number)
        self._finish(sums, panel, row)

    @property
    def _is_lone(self) -> bool:
        """Whether a weight meets one row alone, panel after panel: memory is all it waits for."""
        return self.operands.rows == 1 and self.tiling.panels == 1

    def _fetch(self, panel: Any, block: Any) -> None:
        """Begin to fetch a block that comes later, of this panel or of those behind it."""
        following = panel * self.blocks + block + -(-AHEAD_BYTES // self._block_bytes)
        operands = self.operands
        for buffer, count in (
            (self.bytes, self._block_bytes),
            (operands.scales, self.width),
            (operands.minima, self.width),
        ):
            if buffer is not None:
                lines = -(-count // elements_of_a_line(buffer.dtype))
                for each in fetched_lines(buffer, following * count, lines):
                    self.ib.emit(each)

    @property
    def _block_bytes(self) -> int:
        """Of the levels of a block, of all rows of a panel."""
        return self.words * WORD_BYTES * self.width

    def _multiply(self, whole: VectorSums, panel: Any, row: Any, block: Any, number: int) -> None:
        """Add a block's products of integers."""
        steps = min(WORD_STEPS, self.words)
        vectors = Vectors(self.ib, self._weight_type)
        kept = vectors.allocate("words", 2 * WORD_BYTES * self.width, "local")
        with self.ib.for_range(0, self.words // steps, "step") as step:
            for turn in range(steps):
                word = step * steps + turn
                for half, (values, within) in enumerate(self._words(panel, block, word)):
                    start = half * WORD_BYTES * self.width
                    vectors.store(kept, start, values, WORD_BYTES * self.width)
                    for at in range(self.tiling.rows):
                        first = ((row + at) * self.blocks + block) * self.size
                        data = self._data(first + within * WORD_BYTES)
                        place = at * self.tiling.panels + number
                        weights = load(kept, start, WORD_BYTES * self.width)
                        whole.put(place, self._dot(whole.value(place), data, weights))

    @property
    def _weight_type(self) -> str:
        return "uint8" if self._is_unsigned else LEVEL

    def _words(self, panel: Any, block: Any, word: Any) -> Iterator[tuple[Any, Any]]:
        """Give vectors of four levels of each row, and which word of the block's data is theirs."""
        count = WORD_BYTES * self.width
        start = ((panel * self.blocks + block) * self.words + word) * count
        flat = load(self.bytes, start, count)
        wanted = f"{self._weight_type}x{count}"
        if self.operands.has_nibbles:
            mask = broadcast(tir.const(NIBBLE_MASK, "uint8"), count)
            shift = broadcast(tir.const(NIBBLE_BITS, "uint8"), count)
            yield _as(wanted, flat & mask), word
            yield _as(wanted, flat >> shift), word + self.words
            return
        values = _as(wanted, flat)
        if self._turns_sign:
            values = values ^ broadcast(tir.const(SIGN_BIT, "uint8"), count)
        yield values, word

    def _data(self, start: Any) -> Any:
        """Return four levels of the data, again and again."""
        few = load(self.levels, start, WORD_BYTES)
        word = tir.call_intrin(SUM, "tir.reinterpret", few)
        whole = f"{LEVEL}x{WORD_BYTES * self.width}"
        return tir.call_intrin(whole, "tir.reinterpret", broadcast(word, self.width))

    def _dot(self, total: Any, data: Any, weights: Any) -> Any:
        name = self.instruction.name_for(self.width)
        # Where only one operand is signed it is the second.
        sides = (weights, data) if self._is_unsigned else (data, weights)
        count = tir.const(1 + len(sides), "uint32")
        return tir.call_llvm_pure_intrin(f"{SUM}x{self.width}", name, count, total, *sides)

    def _scale(
        self, sums: VectorSums, whole: VectorSums, panel: Any, row: Any, block: Any, number: int
    ) -> None:
        """Add a block's sums, scaled, and what its weights have in common."""
        operands, width = self.operands, self.width
        place = [panel, block, ramp(0, width)]
        vectors = Vectors(self.ib, FLOAT)
        kept = vectors.allocate("scales", 2 * width, "local")
        vectors.store(kept, 0, single(tir.BufferLoad(operands.scales, place)), width)
        scale, added = load(kept, 0, width), None
        if operands.minima is not None:
            added = single(tir.BufferLoad(operands.minima, place))
            if self._turns_sign:
                added = added - scale * broadcast(tir.const(float(SIGN_BIT), FLOAT), width)
        elif operands.has_nibbles or self._turns_sign:
            zero = NIBBLES_ZERO if operands.has_nibbles else SIGN_BIT
            added = scale * broadcast(tir.const(-float(zero), FLOAT), width)
        if added is not None:
            vectors.store(kept, width, added, width)
        for at in range(self.tiling.rows):
            position = (row + at) * self.blocks + block
            target = at * self.tiling.panels + number
            found = tir.Cast(f"{FLOAT}x{width}", whole.value(target))
            step = broadcast(load(self.steps, position, 1), width)
            sums.add_product(target, found, scale * step)
            if added is not None:
                total = broadcast(load(self.totals, position, 1), width)
                sums.add_product(target, load(kept, width, width), total)

    def _finish(self, sums: VectorSums, panel: Any, row: Any) -> None:
        for at in range(self.tiling.rows):
            for number in range(self.tiling.panels):
                column = (panel + number) * self.width

                def put(row: Any, lane: Any, value: Any, column: Any = column) -> Any:
                    return self.store(row, column + lane, value)

                sums.store(put, (row + at,), at * self.tiling.panels + number)


def _as(dtype: str, value: Any) -> Any:
    return value if value.dtype == dtype else tir.call_intrin(dtype, "tir.reinterpret", value)


def _reduced(name: str, vector: Any) -> Any:
    return tir.call_llvm_pure_intrin(
        SUM, f"llvm.vector.reduce.{name}", tir.const(1, "uint32"), vector
    )
