"""Loop-nest building blocks shared by the templates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.parallelism import MIN_PARALLEL_WORK, should_parallelise
from tvm_fusionx.tir.block import BlockInfo, Stage, describe_block, describe_stage, loads_of
from tvm_fusionx.tir.dot_call import innermost_index
from tvm_fusionx.tir.index_maps import lie_in_one_piece, variables_of

# Steps that must come after every other primitive: `decompose_reduction`.
Late = list[Callable[[], None]]

# Fewer lanes than a vector has are still worth one where sums lie side by side: chunks of 5 to 12
# channels. The narrowest vectors of x86 and Arm have four.
NARROWEST_VECTOR = 4

# A spatial axis shorter than this share of a vector is fused with the one around it first.
MIN_FILLED_SHARE = 2


def extent(sch: Any, loop: Any) -> int:
    """Return the constant extent of a loop."""
    return int(sch.get(loop).extent)


def iters_of(sch: Any, block: Any) -> list[Any]:
    """Return the block variables of a scheduled block."""
    return list(sch.get(block).iter_vars)


def is_reducing(it: Any) -> bool:
    """Tell whether a block variable accumulates."""
    return bool(it.iter_type == tir.IterVar.CommReduce)


def own_loops(sch: Any, block: Any) -> tuple[list[Any], list[Any]]:
    """Return the block's innermost spatial and reduction loops, one for each block variable.

    Only valid while the block's loops correspond one to one to its variables, as they do when it
    was just created or computed at a loop with unit loops preserved.
    """
    iters = iters_of(sch, block)
    loops = sch.get_loops(block)[-len(iters) :] if iters else []
    spatial = [loop for loop, it in zip(loops, iters, strict=True) if not is_reducing(it)]
    reduced = [loop for loop, it in zip(loops, iters, strict=True) if is_reducing(it)]
    return spatial, reduced


def info_of(sch: Any, info: BlockInfo) -> BlockInfo:
    """Describe the block as it is scheduled now."""
    return describe_block(sch.mod["main"], info.processor)


def vectorise_spatial(sch: Any, loops: list[Any], lanes: int) -> None:
    """Vectorise the innermost of `loops`, fusing outward while it is too short for a vector."""
    if not loops:
        return
    inner = loops[-1]
    outer = list(loops[:-1])
    while is_too_short(extent(sch, inner), lanes) and outer:
        inner = sch.fuse(outer.pop(), inner)
    vectorise_loop(sch, inner, lanes)


def vectorise_member(sch: Any, block: Any, loops: list[Any], lanes: int) -> None:
    """Vectorise a stage with a loop of `loops` for each of its axes, as :func:`vectorise_spatial`.

    A narrower vector for each row where one over several rows would have to be gathered.
    """
    stage = describe_stage(sch.get(block))
    wide = [it for it in stage.iters if it.extent > 1]
    is_narrow = loops and NARROWEST_VECTOR <= extent(sch, loops[-1]) < lanes
    if is_narrow and len(wide) > 1 and not lie_in_one_piece(stage, wide[-2:]):
        loops = loops[-1:]
    vectorise_spatial(sch, loops, lanes)


def is_too_short(elements: int, lanes: int) -> bool:
    """Tell whether an axis would leave vectors of `lanes` elements badly filled."""
    return elements % lanes != 0 and elements < MIN_FILLED_SHARE * lanes


def vectorise_loop(sch: Any, loop: Any, lanes: int) -> Any | None:
    """Split `loop` by the vector width and vectorise the inside; None when it is too short.

    One that is shorter than a vector gets the widest power of two in it.
    """
    size = extent(sch, loop)
    if size < lanes:
        lanes = 1 << (size.bit_length() - 1)
        if size == 1 or (lanes < size and lanes < NARROWEST_VECTOR):
            return None
    if size == lanes:
        sch.vectorize(loop)
        return loop
    _, inner = sch.split(loop, [None, lanes])
    sch.vectorize(inner)
    return inner


def vectorise_reduction(
    sch: Any,
    block: Any,
    spatial: list[Any],
    reduced: list[Any],
    lanes: int,
    late: Late,
    chains: int = 1,
) -> None:
    """Accumulate along the innermost spatial loop of a reduction, one vector at a time.

    Where the others are no more than `chains` rows together, a vector of each side by side.
    """
    wide = [loop for loop in spatial if extent(sch, loop) > 1]
    if wide and (
        extent(sch, wide[-1]) >= lanes
        or (extent(sch, wide[-1]) >= NARROWEST_VECTOR and _keeps_neighbours_apart(sch, block))
    ):
        *beside, inner = wide
        if extent(sch, inner) > lanes:
            vectors, inner = sch.split(inner, [None, lanes])
            beside.append(vectors)
        if math.prod(extent(sch, each) for each in beside) > chains:
            beside = []
        sch.reorder(*reduced, *beside, inner)
        for loop in beside:
            sch.unroll(loop)
        sch.vectorize(inner)
        late.append(lambda: _decompose(sch, block, reduced[0], vectorise=True))
    elif reduced:
        late.append(lambda: _decompose(sch, block, reduced[0], vectorise=False))


def _keeps_neighbours_apart(sch: Any, block: Any) -> bool:
    """Tell whether what a reduction reads lies as its last spatial axis wider than one does."""
    iters = [it for it in iters_of(sch, block) if int(it.dom.extent) > 1]
    last = next(it.var for it in reversed(iters) if not is_reducing(it))
    reduced = {it.var for it in iters if is_reducing(it)}
    for load in loads_of(sch.get(block).body):
        if any(last in variables_of(index) for index in load.indices):
            innermost = variables_of(innermost_index(load))
            if last not in innermost or innermost & reduced:
                return False
    return True


def _decompose(sch: Any, block: Any, loop: Any, *, vectorise: bool) -> None:
    try:
        init = sch.decompose_reduction(block, loop)
    except tvm.TVMError:
        # The initialisation then stays inside the loop, as a condition on its first iteration.
        return
    if vectorise:
        sch.vectorize(sch.get_loops(init)[-1])


def finish(late: Late) -> None:
    """Run the steps that had to wait for all others."""
    for step in late:
        step()


def schedule_alone(
    sch: Any, name: str, stage: Stage, cpu: Cpu, parallel_work: int = MIN_PARALLEL_WORK
) -> None:
    """Give one stage its own parallel loop nest, vectorised along its last spatial axis."""
    loops = sch.get_loops(sch.get_block(name))
    spatial = [loop for loop, it in zip(loops, stage.iters, strict=True) if not it.is_reduction]
    reduced = [loop for loop, it in zip(loops, stage.iters, strict=True) if it.is_reduction]
    parallel = should_parallelise([stage], cpu.cores, parallel_work)
    if not spatial:
        return
    if not reduced:
        fused = sch.fuse(*spatial)
        if stage.points % cpu.lanes == 0:
            outer, inner = sch.split(fused, [None, cpu.lanes])
            sch.vectorize(inner)
        else:
            outer = fused
        if parallel:
            sch.parallel(outer)
        return
    sch.reorder(*spatial, *reduced)
    if parallel:
        sch.parallel(sch.fuse(*spatial))
