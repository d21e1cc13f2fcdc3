"""What is told of generated text, from files of results."""

from __future__ import annotations

from typing import Any

from tests.benchmarks.scripts import script

table = script("generation_table")


def test_each_result_is_told_by_what_it_has() -> None:
    row = {
        "prompt_tokens": 16,
        "first_token_ms": 12.34,
        "decoded_tokens_a_second": 56.78,
        "share_of_reading": 0.714,
    }
    speed: dict[str, Any] = {
        "model": "net.gguf",
        "device": "a processor",
        "threads": 2,
        "cache_places": 512,
        "rows": [{"side": "ours int8", **row}, {"side": "llama.cpp", **row}],
        "memory": {"ours int8": {"resident_bytes": 3 << 20}},
        "reading_gbytes_a_second": 44.0,
    }
    told = table.of_text([speed])
    assert "net.gguf on a processor, 2 threads, a cache of 512 places" in told
    assert "Memory: ours int8 3 MiB; reading reaches 44.0 GB/s." in told
    assert "| side | prompt tokens |" in told
    assert "| llama.cpp | 16 | 12.3 | 17.61 | 56.8 | 71 % |" in told
    facts = {"model": "net.gguf", "book": "b", "chapter": 1, "tokens": 9}
    told = table.of_text([{**facts, "perplexity": {"ours": 17.0, "llama.cpp": 17.25}}])
    assert told.endswith("first 9 tokens of chapter 1 of b: ours 17.000, llama.cpp 17.250.")
    texts = [{"same": 64, "tokens": 64}, {"same": 3, "tokens": 64}]
    told = table.of_text([{"model": "net.gguf", "texts": texts}])
    assert "the same 64 tokens for 1 of 2 prompts, at least 3 for each" in told
    facts = {"model": "net", "window": 384, "device": "a processor", "threads": 2, "questions": 20}
    rows = [{"side": "ours", "question_ms": 61.23}, {"side": "ort", "question_ms": 70.0}]
    told = table.of_text([{**facts, "spans": rows}])
    assert "A question that net answers" in told
    assert told.endswith("2 threads; median of 20, in turns: ours 61.2 ms, ort 70.0 ms.")
