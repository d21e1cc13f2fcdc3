from __future__ import annotations

from tests.memory.programs import BRANCHES, program
from tvm_fusionx.memory.lifetimes import ALIGNMENT, aligned, live_bytes, tenants_of
from tvm_fusionx.memory.program import Buffer, Call, Program


def test_a_buffer_lives_from_its_writer_to_its_last_reader() -> None:
    spans = {each.name: (each.first, each.last) for each in tenants_of(BRANCHES, range(6))}
    assert spans == {
        "t0": (0, 2),
        "t1": (1, 3),
        "t2": (2, 4),
        "t3": (3, 5),
        "t4": (4, 5),
        "t5": (5, 5),
    }


def test_an_order_moves_lives() -> None:
    spans = {
        each.name: (each.first, each.last) for each in tenants_of(BRANCHES, (0, 1, 3, 2, 4, 5))
    }
    assert spans["t1"] == (1, 2)
    assert spans["t0"] == (0, 3)


def test_live_bytes_are_those_of_every_moment() -> None:
    units = [live // ALIGNMENT for live in live_bytes(tenants_of(BRANCHES, range(6)), 6)]
    assert units == [1, 9, 17, 17, 10, 3]


def test_a_workspace_lives_in_its_call_alone() -> None:
    some = program(([], 1), ([0], 1), workspace={1: 5})
    (found,) = [each for each in tenants_of(some, (0, 1)) if each.buffer is None]
    assert (found.first, found.last, found.bytes) == (1, 1, 5 * ALIGNMENT)
    assert live_bytes(tenants_of(some, (0, 1)), 2) == [ALIGNMENT, 7 * ALIGNMENT]


def test_what_lies_outside_or_is_empty_takes_no_place() -> None:
    buffers = (Buffer("out", 640, True), Buffer("nothing", 0), Buffer("odd", 65))
    some = Program(buffers, (Call("k", (), (0, 1, 2)),))
    assert [(each.name, each.bytes) for each in tenants_of(some, (0,))] == [("odd", 128)]
    assert aligned(64) == 64
