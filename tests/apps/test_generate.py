"""What is said of a text: rates of what was counted; whole texts are in test_text_model.py."""

from __future__ import annotations

from tvm_fusionx.apps.generate import GenerationStats


def test_rates() -> None:
    stats = GenerationStats(10, 21, prompt_seconds=0.5, decode_seconds=2.0)
    # The first of the new tokens came with the prompt.
    assert (stats.prompt_rate, stats.decode_rate) == (20.0, 10.0)


def test_nothing_has_no_rate() -> None:
    assert (GenerationStats().prompt_rate, GenerationStats().decode_rate) == (0.0, 0.0)
    assert GenerationStats(1, 1, 0.1, 0.1).decode_rate == 0.0
