from __future__ import annotations

import pytest

from tvm_fusionx.counting.executed import Function, Step
from tvm_fusionx.counting.tally import Tally, estimate_cycles, tally_of

TEXTS = {
    1: "fmla v0.4s, v1.4s, v2.4s",
    2: "ldr q0, [sp, #16]",
    3: "str q0, [x0]",
    4: "mov v0.16b, v1.16b",
    5: "fadd v0.4s, v1.4s, v2.4s",
    6: "b.ne 0x0",
    7: "add x0, x0, #16",
}


def function(words: dict[int, int], name: str = "f") -> Function:
    """Return a function whose instructions ran as often as told."""
    steps = tuple(Step(4 * place, word, n) for place, (word, n) in enumerate(words.items()))
    return Function(name, "mod.so", steps, (64, 128, 0, 256))


def test_each_kind_is_counted_as_often_as_it_ran() -> None:
    tally = tally_of(function({word: 10 * word for word in TEXTS}), TEXTS, 16)
    assert tally == Tally(
        instructions=280,
        multiply_adds=10,
        loads=20,
        stores=30,
        stack=20,
        moves=40,
        vector=50,
        branches=60,
        other=70,
        products=40,
        loaded_bytes=320,
        stored_bytes=480,
        l1_bytes=192,
        l2_bytes=256,
    )


def test_tallies_add_up() -> None:
    total = Tally(instructions=1, cycles={"a": 2.0})
    total.add(Tally(instructions=2, loads=3, cycles={"a": 1.0, "b": 4.4}))
    assert total == Tally(instructions=3, loads=3, cycles={"a": 3.0, "b": 4.4})
    assert total.to_json()["cycles"] == {"a": 3, "b": 4}


def test_cycles_are_those_of_the_hot_pieces_times_their_runs() -> None:
    hot, rare = function({1: 10_000}), function({5: 1}, "g")
    tallies = [tally_of(each, TEXTS, 16) for each in (hot, rare)]
    estimate_cycles([hot, rare], tallies, TEXTS, ["neoverse-n1"])
    # One sum: four cycles until it can be added to again.
    assert tallies[0].cycles["neoverse-n1"] == pytest.approx(40_000, rel=0.1)
    # Too little to be read: at the pace of all.
    assert tallies[1].cycles["neoverse-n1"] == pytest.approx(4, rel=0.1)
