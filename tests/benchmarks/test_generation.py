"""Rows of the table of tokens a second: sides take turns, medians are told."""

from __future__ import annotations

from tests.benchmarks.scripts import script

generation = script("generation")


class Told:
    """A side that answers from a list, and says when it was asked."""

    def __init__(self, name: str, answers: list[tuple[float, float]], calls: list[str]) -> None:
        self.name = name
        self._answers = iter(answers)
        self._calls = calls

    def ask(self, ask: str, tokens: list[int], count: int) -> dict[str, float]:
        assert (ask, tokens) == ("time", [7, 8])
        self._calls.append(f"{self.name} {count}")
        first, behind = next(self._answers)
        return {"first_seconds": first, "behind_seconds": behind}


def test_sides_take_turns_and_medians_are_told() -> None:
    calls: list[str] = []
    one = Told("one", [(9.0, 9.0), (1.0, 2.0), (3.0, 6.0), (2.0, 4.0)], calls)
    two = Told("two", [(9.0, 9.0), *[(4.0, 1.0)] * 3], calls)
    first, second = generation.rows_of([one, two], [7, 8], 5, 3, 2 * 10**9)
    # Each was asked for two tokens before anything counted.
    assert calls == ["one 2", "two 2", *["one 5", "two 5"] * 3]
    assert first == {
        "side": "one",
        "prompt_tokens": 2,
        "first_token_ms": 2000.0,
        "prompt_tokens_a_second": 1.0,
        "decoded_tokens_a_second": 1.0,
        "spread": 3.0,
        "weights_gbytes_a_second": 2.0,
    }
    assert second["decoded_tokens_a_second"] == 4.0
