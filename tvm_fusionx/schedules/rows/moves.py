"""Joints and transpositions: stages in pieces that are straight lines, turned in registers.

A block that mostly moves data, such as a concatenation of what were planes, is cut where its pieces
meet. In a piece, vectors run along the axis in which all that is read lies side by side; where the
results lie so along axes further inside, the vectors of all places there are turned.

    read      [c][p], vectors of pixels      written   [p][c], as many vectors of c, c, c, ...
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.parts.hand_written_kernel import replace_stages
from tvm_fusionx.schedules.parts.nest import NARROWEST_VECTOR
from tvm_fusionx.schedules.parts.parallelism import MIN_PARALLEL_WORK, should_parallelise
from tvm_fusionx.schedules.rows.knobs import LANES_KNOB, PARALLEL_WORK_KNOB, PARALLEL_WORKS
from tvm_fusionx.schedules.rows.moves_kernel import Lane, Piece, build_moves, indices_of
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.tir.block import BFLOAT16, BlockInfo, Stage, describe_block, loads_of
from tvm_fusionx.tir.concat_boxes import cut_at_joints, range_of
from tvm_fusionx.tir.flat_access import step_of
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.inline import inline_spatial
from tvm_fusionx.tir.strided_accesses import Copy, Line, StraightBox, straighten
from tvm_fusionx.tir.widening import BYTES

KERNEL = "moves"

# Types whose vectors are not shuffled: bits, and what LLVM gets as float32.
NOT_TURNED = ("bool", BFLOAT16)

# Vectors that are turned together: each is held in a register, of which x86 has 16 or 32.
MOST_TURNED = 16

# Pieces of a block at most; each is code of its own.
MOST_PIECES = 16


def pieces_of(stage: Stage) -> list[Piece] | str:
    """Return the pieces of a stage, with the fewest axes left whole, or why it has none."""
    store, iters = stage.block.body, stage.iters
    if not isinstance(store, tir.BufferStore):
        return "it does more than store one value"
    reasons = []
    for whole in range(len(iters)):
        first = len(iters) - whole
        if math.prod(it.extent for it in iters[first:]) > MOST_TURNED:
            break
        found = _cut(store, iters, whole)
        if not isinstance(found, str):
            return found
        reasons.append(found)
    # With all axes cut, a piece is what it is; the others are attempts to turn several together.
    return reasons[0] if reasons else "it has no axes"


def _cut(store: Any, iters: Any, whole: int) -> list[Piece] | str:
    """Return the pieces of a stage whose innermost `whole` axes are not cut, or why not."""
    boxes = cut_at_joints(store.value, iters, range(len(iters) - whole, len(iters)))
    if len(boxes) > MOST_PIECES:
        return "it has more pieces than are worth code of their own"
    pieces = []
    for box in boxes:
        straight = straighten(store, iters, box, whole)
        piece = straight if isinstance(straight, str) else _piece(straight)
        if isinstance(piece, str):
            return piece
        pieces.append(piece)
    return pieces


def _piece(box: StraightBox) -> Piece | str:
    """Return a box with vectors along the innermost axis in which its operands lie side by side."""
    found: Piece | str = "it has no axes"
    if box.extents:
        loads = [line for copy in box.copies for line in copy.loads]
        axes = [
            position
            for position in range(len(box.extents))
            if all(line.steps[position] in (0, 1) for line in loads)
        ]
        found = _along(box, axes[-1]) if axes else "its operands lie side by side along no axis"
        if isinstance(found, str):
            found = _parted(box) or (_across(box, axes[-1]) if axes else found)
    if isinstance(found, str):
        found = _place_by_place(box) or found
    return found


def _place_by_place(box: StraightBox) -> Piece | None:
    """Return a box of bytes as vectors of one element, or None where it is anything else.

    Such are a column and the corners of the border around a picture, whose other boxes are turned.
    """
    if any(str(copy.store.buffer.dtype) not in BYTES for copy in box.copies):
        return None

    def moved(copy: Copy) -> Copy:
        loads = tuple(replace(line, steps=(*line.steps, 0)) for line in copy.loads)
        store = replace(copy.store, steps=(*copy.store.steps, len(box.copies)))
        return Copy(copy.value, loads, store)

    places = StraightBox((*box.extents, 1), tuple(map(moved, box.copies)))
    found = _along(places, len(box.extents))
    return None if isinstance(found, str) else found


def _along(box: StraightBox, position: int) -> Piece | str:
    """Return a box with vectors along one of its axes and all places inside, or why not."""
    inside = box.extents[position + 1 :]
    if math.prod(inside) * len(box.copies) > MOST_TURNED:
        return "there are too many places inside the axis along which its operands lie"
    places = []
    for copy in box.copies:
        for place in range(math.prod(inside)):
            indices = indices_of(place, inside)
            moved = zip(copy.store.steps[position + 1 :], indices, strict=True)
            at = copy.store.start + sum(step * index for step, index in moved)
            places.append((at, Lane(copy, indices)))
    places.sort(key=lambda each: each[0])
    number, first = len(places), places[0][0]
    lie_together = [at - first for at, _ in places] == list(range(number))
    if not lie_together or any(copy.store.steps[position] != number for copy in box.copies):
        return "what it writes does not lie in one piece"
    lanes = tuple(lane for _, lane in places)
    return Piece(box.extents[:position], box.extents[position], lanes)


def _across(box: StraightBox, position: int) -> Piece | str:
    """Return a box with vectors along one of its axes and columns along another, or why not."""
    last = len(box.extents) - 1
    if len(box.copies) > 1 or position == last or box.copies[0].store.steps[last] != 1:
        return "what it writes does not lie in one piece"
    order = [*(axis for axis in range(last) if axis != position), position, last]
    (copy,) = (_in_order(copy, order) for copy in box.copies)
    *extents, length, columns = (box.extents[axis] for axis in order)
    if min(length, columns) < NARROWEST_VECTOR:
        return "its rows or columns are shorter than any vector"
    return Piece(tuple(extents), length, (Lane(copy, ()),), columns)


def _parted(box: StraightBox) -> Piece | None:
    """Return a box whose operands lie together for all places of an axis, or None.

    They lie so along the innermost axis: colours in a picture by pixels, of which planes are made.
    """
    last = len(box.extents) - 1
    steps = {line.steps[last] for copy in box.copies for line in copy.loads} - {0, 1}
    if len(box.copies) > 1 or len(steps) != 1 or not 1 < max(steps) <= MOST_TURNED:
        return None
    if box.copies[0].store.steps[last] != 1:  # a part of a joint that is one place long
        return None
    (copy,), (number,) = box.copies, steps
    loads = tuple(at for at, line in enumerate(copy.loads) if line.steps[last] == number)
    for position in range(last):
        if box.extents[position] == number and all(
            copy.loads[at].steps[position] == 1 for at in loads
        ):
            order = [*(axis for axis in range(last) if axis != position), last, position]
            lanes = tuple(Lane(_in_order(copy, order), (place,)) for place in range(number))
            *extents, length, _ = (box.extents[axis] for axis in order)
            return Piece(tuple(extents), length, lanes, parted=loads)
    return None


def _in_order(copy: Copy, order: Sequence[int]) -> Copy:
    """Return what is copied, its axes in another order."""

    def moved(line: Line) -> Line:
        return Line(line.buffer, line.start, tuple(line.steps[axis] for axis in order))

    return Copy(copy.value, tuple(map(moved, copy.loads)), moved(copy.store))


def _reads_neighbours(stage: Stage) -> bool:
    """Tell whether all that a stage reads moves as its last axis does, or not at all, all along."""
    wide = [it for it in stage.iters if it.extent > 1]
    if not wide:
        return True
    analyzer = tvm.arith.Analyzer()
    for it in wide:
        analyzer.bind(it.var, range_of(it.var, it.extent))
    for load in loads_of(stage.block.body):
        indices = [analyzer.simplify(index) for index in load.indices]
        if step_of(tir.BufferLoad(load.buffer, indices), wide[-1].var) not in (0, 1):
            return False
    return True


def _can_turn(stage: Stage) -> bool:
    return all(str(each.dtype) not in NOT_TURNED for each in (*stage.reads, *stage.writes))


def _moved(info: BlockInfo) -> tuple[Any, dict[str, list[Piece]]] | str:
    """Return a block as a function of its outputs' stages, and the pieces of each, or why not."""
    if info.reductions:
        return "it does more than move data"
    sch = fresh_schedule(info.func)
    inlined = inline_spatial(sch, info)
    if set(inlined.stages) != set(inlined.outputs):
        return "a stage of it has a loop nest of its own"
    stages = inlined.stages.values()
    if all(_reads_neighbours(stage) for stage in stages):
        return "its rows are read as they are written"
    found = {}
    for stage in stages:
        pieces = pieces_of(stage)
        if isinstance(pieces, str):
            return pieces
        if any(piece.is_turned for piece in pieces) and not _can_turn(stage):
            return "it turns truth values"
        found[stage.name] = pieces
    return sch.mod["main"], found


@dataclass(frozen=True)
class Moved(Match):
    """A block that only moves data: one stage an output, of which one may read another."""

    func: Any
    """The function, all inlined into those stages."""

    pieces: Mapping[str, Sequence[Piece]]
    """By the name of their stage."""

    def knobs(self) -> Knobs:
        """Return width of vectors and what the cores share."""
        cpu = self.info.cpu
        widths = [cpu.lanes >> halvings for halvings in range(cpu.lanes.bit_length())]
        narrowest = min(NARROWEST_VECTOR, cpu.lanes)
        lanes = tuple(sorted(width for width in widths if width >= narrowest))
        knobs = {LANES_KNOB: Knob(cpu.lanes, lanes)}
        if cpu.cores > 1:
            knobs[PARALLEL_WORK_KNOB] = Knob(MIN_PARALLEL_WORK, PARALLEL_WORKS)
        return knobs

    def emit(self, values: KnobValues) -> Any:
        """Return the kernels, one after the other."""
        least_work, cores = values.get(PARALLEL_WORK_KNOB, MIN_PARALLEL_WORK), self.info.cpu.cores
        func = self.func
        stages = describe_block(func, self.info.processor).stages
        for number, (name, pieces) in enumerate(self.pieces.items()):
            is_shared = should_parallelise([stages[name]], cores, least_work)
            kernel = build_moves(pieces, values[LANES_KNOB], cores if is_shared else 1)
            block = KERNEL if not number else f"{KERNEL}_{number}"
            func = replace_stages(func, [], name, [], block, kernel)
        return func


def _match(info: BlockInfo) -> Moved | str:
    found = _moved(info)
    return found if isinstance(found, str) else Moved(info, *found)


MOVES = Template("moves", _match)
