"""A decision comes back whole or not at all."""

from __future__ import annotations

import json

import pytest

from tvm_fusionx.code_cache.decision import MAGIC, Decision
from tvm_fusionx.code_cache.entry import DamagedEntryError, framed

KEY = "ab" * 32
DECISION = Decision("rows", {"tile": 4}, (("dot", "no product"),), "cd" * 32)
HELD = DECISION.to_bytes(KEY)


def test_it_comes_back() -> None:
    assert Decision.from_bytes(HELD, KEY) == DECISION


@pytest.mark.parametrize("at", range(0, len(HELD), 7))
def test_no_changed_byte_is_taken(at: int) -> None:
    changed = bytearray(HELD)
    changed[at] ^= 1
    with pytest.raises(DamagedEntryError):
        Decision.from_bytes(bytes(changed), KEY)


@pytest.mark.parametrize("length", [0, 5, len(MAGIC), len(MAGIC) + 32, len(HELD) - 1])
def test_no_part_is_taken(length: int) -> None:
    with pytest.raises(DamagedEntryError):
        Decision.from_bytes(HELD[:length], KEY)


def test_another_block_is_not_taken() -> None:
    with pytest.raises(DamagedEntryError, match="another block"):
        Decision.from_bytes(HELD, "ef" * 32)


@pytest.mark.parametrize("told", [[], {"key": KEY}, {"key": KEY, "template": "rows", "knobs": 3}])
def test_what_describes_no_schedule_is_not_taken(told: object) -> None:
    with pytest.raises(DamagedEntryError):
        Decision.from_bytes(framed(MAGIC, json.dumps(told).encode()), KEY)
