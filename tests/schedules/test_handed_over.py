"""Schedules on their way from planning to the build: each is taken once, the oldest goes."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import te

from tvm_fusionx.schedules.handed_over import HandedOver
from tvm_fusionx.schedules.template import Scheduled

CPU, OTHER = (tvm.target.Target(f"llvm -mcpu={core}") for core in ("znver4", "skylake-avx512"))


def _block(size: int, name: str = "x") -> Any:
    x = te.placeholder((size,), name=name)
    return te.create_prim_func([x, te.compute((size,), lambda i: x[i] * 2.0)])


def test_an_equal_block_of_the_same_target_takes_it_once() -> None:
    waiting, made = HandedOver(), Scheduled(_block(4), "rows")
    waiting.put(_block(4), CPU, made)
    assert waiting.take(_block(5), CPU) is None
    assert waiting.take(_block(4), OTHER) is None
    assert waiting.take(_block(4, "y"), CPU) is made
    assert waiting.take(_block(4), CPU) is None


def test_a_process_bound_to_other_cores_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many tasks a kernel has follows from them."""
    waiting, cores = HandedOver(), {0, 1, 2, 3}
    monkeypatch.setattr("os.sched_getaffinity", lambda process: cores, raising=False)
    waiting.put(_block(4), CPU, Scheduled(_block(4), "rows"))
    cores.discard(3)
    assert waiting.take(_block(4), CPU) is None
    cores.add(3)
    assert waiting.take(_block(4), CPU) is not None


def test_the_oldest_are_forgotten() -> None:
    waiting = HandedOver(most=2)
    for size in (3, 4, 5):
        waiting.put(_block(size), CPU, Scheduled(_block(size), "rows"))
    assert [waiting.take(_block(size), CPU) is None for size in (3, 4, 5)] == [True, False, False]


def test_one_of_another_structure_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes may be equal where blocks are not."""
    waiting = HandedOver()
    waiting.put(_block(3), CPU, Scheduled(_block(3), "rows"))
    monkeypatch.setattr("tvm_fusionx.schedules.handed_over._key", lambda func, target: ("", 1, 0))
    waiting.put(_block(3), CPU, Scheduled(_block(3), "rows"))
    assert waiting.take(_block(9), CPU) is None
