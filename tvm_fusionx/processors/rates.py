"""How fast processors multiply, load, gather and start work."""

from __future__ import annotations

FLOAT_BYTES = 4


# Fused multiply-adds of one vector that a core starts in a cycle.
FMAS_A_CYCLE = 2


# Lanes of the multiply-adds that cycles are counted in; a chunk of 16 channels counts as two.
MAX_LANES = 8


# Measured on Zen 4: moving one vector into a gather buffer, with the test for the border.
GATHER_CYCLES = 2.5


# Bytes a cycle that a core streams from the last-level cache.
STREAM_BYTES_A_CYCLE = 12


# Starting a task: pointers, loop set-up, the first misses.
TASK_CYCLES = 500


# Independent sums that hide a fused multiply-add's latency: 4 cycles on 2 ports (Zen, Skylake).
SUMS_TO_HIDE_LATENCY = 8


# Registers that a tile leaves free: one for the broadcast input, one for what LLVM adds.
SPARE_REGISTERS = 2


# Where channels are apart, a task may gather few of them. C3D's last pool, 512 channels of 7 x 7,
# takes 4.5 us with all of them in a task, 3.7, 3.0 and 2.7 in two, four and eight parts (Zen 4).
FAR_GATHER_PENALTY = 2


# Part of the first-level cache that what is gathered may fill.
NEAR_SHARE = 1 / 2


# A gather buffer or a slab of input larger than the second-level cache slows the loads down.
SPILL_PENALTY = 1.3


# Tasks that are no whole number of slabs a core read rows that another core wrote.
FOREIGN_ROWS_PENALTY = 1.1


# Columns that weights from the second-level cache are multiplied by, to come in time: a vector of
# 32 bytes for each at 28 a cycle. On Zen 3, tiles of 4 chunks by 2 columns take 1.11 to 1.17 times
# as long a product as ones of 2 by 4; where the weights stay in the first level, 0.98.
COLUMNS_TO_STREAM = 2.25


# Bytes a cycle that a core streams from its second-level cache.
NEAR_BYTES_A_CYCLE = 32


# Waking TVM's thread pool takes 1 to 3 us on the machines measured (two cores, pool spinning). The
# zoo's blocks with less work are faster on one core, with AVX2 and with AVX-512 (Zen 4): masks of
# 128 x 128 0.7 and 2.3 us, gates of squeeze-and-excitation 1.3 and 2.9; from 60,000 on on two.
MIN_PARALLEL_WORK = 49152


# A transcendental function as a vectorised polynomial costs about this many multiplications.
TRANSCENDENTAL_WORK = 8


# A line of the caches, on every processor that is known here.
LINE_BYTES = 64


# An addition's result is there after 2 to 4 cycles, and two vectors are loaded in each.
ADDITION_CYCLES = 3


LOAD_CYCLES = 0.5
