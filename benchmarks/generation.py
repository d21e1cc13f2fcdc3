"""Time a language model: prompts and decoding, beside llama.cpp where it is installed.

    python benchmarks/generation.py [--model FILE] [--prompts 16,128,512] [--new-tokens 64]
                                    [--repeat 5] [--threads N] [--json OUT]

For each length of prompt a row says the milliseconds to the first token, and the decoded tokens a
second behind it: medians of runs in which the sides take turns. llama.cpp runs the same file
(`llama-cpp-python`). What decoding reads of weights in a second is printed beside what copying
reaches here. The prompt is the same sentence again and again, cut to so many tokens.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import tvm_fusionx as fx
from tvm_fusionx.apps.programs import TextPrograms
from tvm_fusionx.apps.text_model import TextModel
from tvm_fusionx.build.library import build_versions
from tvm_fusionx.zoo.language_models import default_language_model

OURS, PEER = "ours", "llama.cpp"
SENTENCE = "The river runs from the mountains to the sea, past mills and meadows and old towns. "

# Of a sentence: enough words for any prompt asked for.
TIMES = 400

# Seconds to the first token, and of the tokens behind it.
Times = tuple[float, float]
Side = Callable[[list[int], int], Times]


def prompt_of(model: TextModel, tokens: int) -> list[int]:
    """Return a prompt of so many tokens."""
    return model.tokenizer.encode(SENTENCE * TIMES)[:tokens]


def ours(model: TextModel) -> Side:
    """Return our side."""

    def run(prompt: list[int], count: int) -> Times:
        model.restart()
        start = time.perf_counter()
        logits = model.read(prompt)
        token = int(logits.argmax())
        first = time.perf_counter()
        for _ in range(count - 1):
            token = int(model.read([token]).argmax())
        return first - start, time.perf_counter() - first

    return run


def llama_cpp(path: Path, threads: int, places: int) -> Side | None:
    """Return llama.cpp's side; None where it is not installed."""
    try:
        from llama_cpp import Llama
    except ImportError:
        return None
    model: Any = Llama(
        str(path), n_ctx=places, n_threads=threads, n_threads_batch=threads, verbose=False
    )

    def run(prompt: list[int], count: int) -> Times:
        model.reset()
        start = time.perf_counter()
        model.eval(prompt)
        token = int(np.argmax(model.scores[model.n_tokens - 1]))
        first = time.perf_counter()
        for _ in range(count - 1):
            model.eval([token])
            token = int(np.argmax(model.scores[model.n_tokens - 1]))
        return first - start, time.perf_counter() - first

    return run


def measured(
    sides: dict[str, Side], prompt: list[int], count: int, repeat: int
) -> list[dict[str, Any]]:
    """Return a row for each side."""
    times: dict[str, list[Times]] = {name: [] for name in sides}
    for _ in range(repeat):
        for name, run in sides.items():
            times[name].append(run(prompt, count))
    rows = []
    for name, found in times.items():
        first, behind = (statistics.median(column) for column in zip(*found, strict=True))
        rows.append(
            {
                "side": name,
                "prompt_tokens": len(prompt),
                "first_token_ms": 1e3 * first,
                "prompt_tokens_a_second": len(prompt) / first,
                "decoded_tokens_a_second": (count - 1) / behind,
                "spread": max(each[1] for each in found) / min(each[1] for each in found),
            }
        )
    return rows


def main() -> int:
    """Measure, print a table, and write it as JSON where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--prompts", default="16,128,512")
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    lengths = [int(word) for word in given.prompts.split(",")]
    path = given.model or default_language_model()
    threads = fx.threads(given.threads)
    start = time.perf_counter()
    model = TextModel(TextPrograms(path))
    places = model.programs.bucket_for(max(lengths) + given.new_tokens)
    model.reserve(places)
    load = time.perf_counter() - start
    sides = {OURS: ours(model)}
    peer = llama_cpp(path, threads, places)
    if peer is not None:
        sides[PEER] = peer
    rows = []
    for length in lengths:
        prompt = prompt_of(model, length)
        for run in sides.values():
            run(prompt, 2)
        rows += measured(sides, prompt, given.new_tokens, given.repeat)
        for row in rows[-len(sides) :]:
            print(
                f"{row['side']:10} prompt {length:4}: first token {row['first_token_ms']:8.1f} ms, "
                f"then {row['decoded_tokens_a_second']:7.1f} tokens a second"
            )
    result = {
        "model": path.name,
        "threads": threads,
        "load_seconds": load,
        "new_tokens": given.new_tokens,
        "versions": build_versions(),
        "command": " ".join(sys.argv),
        "rows": rows,
    }
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
