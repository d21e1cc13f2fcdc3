"""Rows of the table of tokens a second: sides take turns, medians are told."""

from __future__ import annotations

from tests.benchmarks.scripts import script

generation = script("generation")


def test_sides_take_turns_and_medians_are_told() -> None:
    calls: list[str] = []
    times = {"one": iter([(1.0, 2.0), (3.0, 6.0), (2.0, 4.0)]), "two": iter([(4.0, 1.0)] * 3)}

    def side(name: str) -> object:
        def run(prompt: list[int], count: int) -> tuple[float, float]:
            assert (prompt, count) == ([7, 8], 5)
            calls.append(name)
            return next(times[name])

        return run

    rows = generation.measured({"one": side("one"), "two": side("two")}, [7, 8], 5, 3)
    assert calls == ["one", "two"] * 3
    assert rows[0] == {
        "side": "one",
        "prompt_tokens": 2,
        "first_token_ms": 2000.0,
        "prompt_tokens_a_second": 1.0,
        "decoded_tokens_a_second": 1.0,
        "spread": 3.0,
    }
    assert rows[1]["decoded_tokens_a_second"] == 4.0
