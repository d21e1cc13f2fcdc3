"""Tables of generated text, from the files of `generation.py` in ``benchmarks/results/text``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

HEADER = (
    *("side", "prompt tokens", "first token, ms", "a token, ms", "tokens a second"),
    "of reading memory",
)
MILLI = 1e3
MEBI = 1 << 20


def of_text(results: Sequence[dict[str, Any]]) -> str:
    """Return what is known of each model: speed, perplexity, texts like `transformers`', spans."""
    parts = []
    told = (("rows", _speed), ("perplexity", _perplexity), ("texts", _texts), ("spans", _spans))
    for result in results:
        for key, tell in told:
            if key in result:
                parts.append(tell(result))
    return "\n\n".join(parts)


def _speed(result: dict[str, Any]) -> str:
    rows = [
        (
            row["side"],
            str(row["prompt_tokens"]),
            f"{row['first_token_ms']:.1f}",
            f"{MILLI / row['decoded_tokens_a_second']:.2f}",
            f"{row['decoded_tokens_a_second']:.1f}",
            f"{100 * row['share_of_reading']:.0f} %",
        )
        for row in result["rows"]
    ]
    memory = ", ".join(
        f"{side} {held['resident_bytes'] / MEBI:.0f} MiB" for side, held in result["memory"].items()
    )
    lines = [f"| {' | '.join(row)} |" for row in (HEADER, *rows)]
    lines.insert(1, "|---" + "|---:" * (len(HEADER) - 1) + "|")
    return "\n\n".join(
        (
            f"{result['model']} on {result['device']}, {result['threads']} threads, a cache of "
            f"{result['cache_places']} places; sides take turns, medians. Memory: {memory}; "
            f"reading reaches {result['reading_gbytes_a_second']:.1f} GB/s.",
            "\n".join(lines),
        )
    )


def _perplexity(result: dict[str, Any]) -> str:
    found = ", ".join(f"{side} {value:.3f}" for side, value in result["perplexity"].items())
    return (
        f"Perplexity of {result['model']} on the first {result['tokens']} tokens of chapter "
        f"{result['chapter']} of {result['book']}: {found}."
    )


def _texts(result: dict[str, Any]) -> str:
    rows = result["texts"]
    whole = sum(row["same"] == row["tokens"] for row in rows)
    least = min(row["same"] for row in rows)
    return (
        f"Greedy texts of {result['model']} beside `transformers`' in float32: the same "
        f"{rows[0]['tokens']} tokens for {whole} of {len(rows)} prompts, at least {least} for each."
    )


def _spans(result: dict[str, Any]) -> str:
    found = ", ".join(f"{row['side']} {row['question_ms']:.1f} ms" for row in result["spans"])
    return (
        f"A question that {result['model']} answers by marking its passage, in windows of "
        f"{result['window']} tokens, on {result['device']}, {result['threads']} threads; median of "
        f"{result['questions']}, in turns: {found}."
    )
