"""The context that TVM compiles our kernels in: its level, its configuration, our TIR passes."""

from __future__ import annotations

from typing import Any

import tvm

from tvm_fusionx._tvm.cures import PASSES_THAT_UNDO_BLOCKS, build_config
from tvm_fusionx.late_passes.add_half_products import add_half_products
from tvm_fusionx.late_passes.add_in_words import add_in_words
from tvm_fusionx.late_passes.bound_halves import bound_halves
from tvm_fusionx.late_passes.brain_casts import cast_brains_by_bits
from tvm_fusionx.late_passes.convert_in_pairs import convert_in_pairs
from tvm_fusionx.late_passes.decide_once_a_vector import decide_once_a_vector
from tvm_fusionx.late_passes.emit_dots import emit_dots
from tvm_fusionx.late_passes.flat_brains import unmark_flat_brains
from tvm_fusionx.late_passes.flush_denormals import (
    FLUSH,
    KEEP,
    Denormals,
    control_register,
    flush_denormals,
)
from tvm_fusionx.late_passes.index_lanes import index_lanes
from tvm_fusionx.late_passes.index_words import index_words
from tvm_fusionx.late_passes.let_nans_through import let_nans_through
from tvm_fusionx.late_passes.levels_in_floats import levels_in_floats
from tvm_fusionx.late_passes.load_together import load_together
from tvm_fusionx.late_passes.narrow_in_pairs import narrow_in_pairs
from tvm_fusionx.late_passes.odd_vectors import split_odd_vectors
from tvm_fusionx.late_passes.pack_to_bytes import pack_to_bytes
from tvm_fusionx.late_passes.pair_rows import pair_rows
from tvm_fusionx.late_passes.round_brains import round_brains
from tvm_fusionx.late_passes.round_to_bytes import round_to_bytes
from tvm_fusionx.late_passes.shuffle_bytes import shuffle_bytes
from tvm_fusionx.late_passes.small_buffers_on_stack import keep_small_buffers_on_stack
from tvm_fusionx.late_passes.steal_work import steal_work
from tvm_fusionx.late_passes.undivided_lets import leave_undivided_lets
from tvm_fusionx.late_passes.vectorise_mathematics import (
    name_vector_functions,
    vectorise_mathematics,
)
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.processors.targets import is_cpu

# FoldConstant cannot evaluate everything below this level, and TVM's own users build at it.
OPT_LEVEL = 3

ADD_LOWER_PASS = "tir.add_lower_pass"
LOOP_PARTITION = "tir.LoopPartition"

# Phase of TVM's lowering in which loops are still marked, and flat buffers are there.
BEFORE_VECTORS = 1
# Phase of TVM's lowering in which a pass sees vectorised, unrolled, flat loops.
AFTER_LOWERING = 3


def pass_context(target: tvm.target.Target, denormals: Denormals = KEEP) -> Any:
    """Return a context at level 3 with our passes of lowering, for blocks and for models.

    It keeps the configuration, instruments and disabled passes of the context outside.

    Parameters
    ----------
    denormals
        ``"flush"``: kernels for a CPU take numbers below the smallest normal one for zero.
    """
    outer = tvm.transform.PassContext.current()
    config = dict(outer.config.items())
    ours = build_config()
    after = [
        *config.get(ADD_LOWER_PASS, []),
        *ours.get(ADD_LOWER_PASS, []),
        (AFTER_LOWERING, cast_brains_by_bits()),
    ]
    if is_cpu(target):
        cpu = describe_cpu(target)
        narrowed = narrow_in_pairs(cpu.lanes, compares_halves=cpu.compares_halves)
        after += [
            (BEFORE_VECTORS, unmark_flat_brains()),
            (BEFORE_VECTORS, name_vector_functions()),
            (BEFORE_VECTORS, split_odd_vectors(cpu.lanes)),
            (BEFORE_VECTORS, decide_once_a_vector()),
            (BEFORE_VECTORS, leave_undivided_lets()),
            *([(AFTER_LOWERING, narrowed)] if cpu.widens_upper_half else []),
            *([(AFTER_LOWERING, bound_halves(2 * cpu.lanes))] if cpu.compares_halves else []),
            (AFTER_LOWERING, levels_in_floats()),
            (AFTER_LOWERING, round_to_bytes(cpu.rounding)),
            (AFTER_LOWERING, pack_to_bytes(cpu.packings, cpu.byte_tables)),
            # Before there are polynomials, which have their own bounds.
            (
                AFTER_LOWERING,
                let_nans_through(cpu.extremes_keep_nan, compares_halves=cpu.compares_halves),
            ),
            *((AFTER_LOWERING, each) for each in _dots(cpu)),
            *([(AFTER_LOWERING, round_brains())] if cpu.brain_dot is not None else []),
            (AFTER_LOWERING, shuffle_bytes(cpu.byte_tables)),
            (AFTER_LOWERING, vectorise_mathematics(cpu.extremes_keep_nan, denormals == FLUSH)),
            *([(AFTER_LOWERING, add_half_products())] if cpu.multiplies_halves else []),
            *([(AFTER_LOWERING, index_lanes(cpu.lanes))] if cpu.multiplies_by_lane else []),
            # Vectors whose lanes multiply are converted too.
            *([(AFTER_LOWERING, convert_in_pairs(cpu.lanes))] if cpu.widens_upper_half else []),
            *([(AFTER_LOWERING, load_together())] if cpu.loads_several else []),
            (AFTER_LOWERING, steal_work(cpu.cores)),
        ]
        register = control_register(target) if denormals == FLUSH else None
        if register is not None:
            # Behind the pass that divides parallel loops: threads set their own registers.
            after.append((AFTER_LOWERING, flush_denormals(register)))
        after.append((AFTER_LOWERING, keep_small_buffers_on_stack()))
        # Peels the iterations that need no bounds check off loops whose extent no tile divides.
        ours[LOOP_PARTITION] = {"partition_const_loop": True}
    ours[ADD_LOWER_PASS] = after
    disabled = [*map(str, outer.disabled_pass), *PASSES_THAT_UNDO_BLOCKS]
    return tvm.transform.PassContext(
        opt_level=OPT_LEVEL,
        required_pass=list(map(str, outer.required_pass)),
        disabled_pass=list(dict.fromkeys(disabled)),
        instruments=list(outer.instruments),
        config={**config, **ours},
    )


def _dots(cpu: Cpu) -> list[Any]:
    """Return the passes that make instructions of dot products."""
    dot = cpu.dot
    passes = [pair_rows(dot)]
    if dot is not None and dot.adds_in_words:
        passes.append(add_in_words(dot))
    passes.append(pair_rows(cpu.brain_dot))
    passes.append(emit_dots(dot, cpu.word_dot, cpu.brain_dot))
    if dot is not None and cpu.takes_words_by_lane:
        passes.append(index_words(cpu.lanes, dot.depth))
    return passes
