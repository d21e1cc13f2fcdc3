from __future__ import annotations

from tvm import relay

from tests.relay_modules import const, var
from tests.schedules.blocked_blocks import unscheduled
from tvm_fusionx.schedules.lowering_log import LoweredBlock, LoweringLog, block_hash


def test_entries_are_told_as_they_come() -> None:
    told: list[int] = []
    log = LoweringLog()
    log.on_entry = lambda: told.append(len(log.entries))
    log.add(LoweredBlock("first", "rows"))
    log.add(LoweredBlock("second", "dot"))
    assert told == [1, 2]


def test_a_block_is_known_by_what_it_computes() -> None:
    x = var("x", 4, 8)
    first, same = (unscheduled(relay.exp(x)) for _ in range(2))
    other = unscheduled(relay.tanh(x + const(8)))
    assert block_hash(first) == block_hash(same) != block_hash(other)
    assert LoweredBlock("exp", "rows", source=first).key == block_hash(first)
    assert LoweredBlock("sort", "topi").key is None
