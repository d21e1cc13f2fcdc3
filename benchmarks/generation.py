"""Time a language model, and measure what its text is worth, beside llama.cpp and ONNX Runtime.

    python benchmarks/generation.py [--against llama.cpp ort --llama-python DIR/bin/python]
        [--model FILE] [--prompts 16,128,512] [--new-tokens 64] [--repeat 5] [--threads N]
        [--activations float32|int8|both] [--chunks 1,16,64] [--json OUT]
    python benchmarks/generation.py --perplexity [--score-tokens 512] [--text-folder DIR] [...]
    python benchmarks/generation.py --texts [--new-tokens 64] [...]

Each side is a process of its own; they take turns. For each length of prompt a row says the
milliseconds to the first token, and the decoded tokens a second behind it: medians. Behind them
stand the memory of each process, and the share of what reading memory reaches here that decoding
takes for weights alone. The prompt is the same sentence again and again, cut to so many tokens.

`ort` is ONNX Runtime with the same levels of 4 bits in `MatMulNBits`, zero points rounded to 4 bits
and products of bytes; `ort-float-zeros` has the file's own zero points, and products of floats.

With --perplexity a chapter of *Pride and Prejudice* (Debian's `r-cran-janeaustenr`) is read token
by token, with activations rounded and not, and by the others; `transformers` reads it at once, in
float32, and once more with its operands rounded as ours are. With --texts greedy texts of ten
prompts are compared with those of `transformers`, which unpacks the same file to float32; both
multiply floats.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from generation_quality import FLOAT32, INT8, PROMPTS, perplexities, texts
from generation_sides import (
    OURS,
    PEERS,
    Side,
    our_side,
    peer_sides,
    reading_gbytes_per_second,
    weight_bytes,
)
from kept_rows import write_json

import tvm_fusionx as fx
from tvm_fusionx.apps.programs import TextPrograms
from tvm_fusionx.build.library import build_versions
from tvm_fusionx.errors import FusionXError
from tvm_fusionx.report.bench.bench import describe_device
from tvm_fusionx.zoo.language_models import default_language_model

SENTENCE = "The river runs from the mountains to the sea, past mills and meadows and old towns. "

# Of a sentence: enough words for any prompt asked for.
TIMES = 400
BOTH = "both"
GIGA = 1e9


def rows_of(
    sides: list[Side], prompt: list[int], count: int, repeat: int, bytes_a_token: int
) -> list[dict[str, Any]]:
    """Return a row for each side."""
    found: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides}
    for side in sides:
        side.ask(ask="time", tokens=prompt, count=2)
    for _ in range(repeat):
        for side in sides:
            found[side.name].append(side.ask(ask="time", tokens=prompt, count=count))
    rows = []
    for name, runs in found.items():
        first = statistics.median(run["first_seconds"] for run in runs)
        behind = [run["behind_seconds"] for run in runs]
        rate = (count - 1) / statistics.median(behind)
        rows.append(
            {
                "side": name,
                "prompt_tokens": len(prompt),
                "first_token_ms": 1e3 * first,
                "prompt_tokens_a_second": len(prompt) / first,
                "decoded_tokens_a_second": rate,
                "spread": max(behind) / min(behind),
                "weights_gbytes_a_second": rate * bytes_a_token / GIGA,
            }
        )
    return rows


def speed(given: argparse.Namespace, path: Path, sides: list[Side]) -> dict[str, Any]:
    """Time prompts and what follows them."""
    programs = TextPrograms(path)
    tokens = programs.tokenizer().encode(SENTENCE * TIMES)
    lengths = [int(word) for word in given.prompts.split(",")]
    places = programs.bucket_for(max(lengths) + given.new_tokens)
    for side in sides:
        side.load(path, given.threads, places, chunks=given.chunks)
    bytes_a_token, rate = weight_bytes(path), reading_gbytes_per_second()
    rows = []
    for length in lengths:
        rows += rows_of(sides, tokens[:length], given.new_tokens, given.repeat, bytes_a_token)
        for row in rows[-len(sides) :]:
            row["share_of_reading"] = row["weights_gbytes_a_second"] / rate
            print(
                f"{row['side']:12} prompt {length:4}: first token {row['first_token_ms']:8.1f} ms, "
                f"then {row['decoded_tokens_a_second']:7.1f} tokens a second, "
                f"{100 * row['share_of_reading']:3.0f} % of reading memory",
                flush=True,
            )
    memory = {side.name: side.ask(ask="memory") for side in sides}
    for name, held in memory.items():
        print(
            f"{name:12} {held['resident_bytes'] >> 20} MiB in memory, "
            f"{held['most_resident_bytes'] >> 20} at most"
        )
    print(f"reading    {rate:.1f} GB/s; weights of a token {bytes_a_token / 1e6:.1f} MB")
    return {
        "rows": rows,
        "memory": memory,
        "reading_gbytes_a_second": rate,
        "weight_bytes": bytes_a_token,
        "cache_places": places,
    }


def main() -> int:
    """Measure, print, and write JSON where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--prompts", default="16,128,512")
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--activations", choices=[FLOAT32, INT8, BOTH])
    parser.add_argument("--chunks", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--against", choices=PEERS, nargs="+", default=[])
    parser.add_argument("--llama-python", default=sys.executable)
    parser.add_argument("--perplexity", action="store_true")
    parser.add_argument("--score-tokens", type=int, default=512)
    parser.add_argument("--text-folder", type=Path, default=Path("out/austen"))
    parser.add_argument("--texts", action="store_true")
    parser.add_argument("--text-prompts", type=int, default=len(PROMPTS))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    given.threads = fx.threads(given.threads)
    path = given.model or default_language_model()
    try:
        peers = peer_sides(given.against, given.llama_python)
        if given.perplexity:
            found = perplexities(given, path, peers)
        elif given.texts:
            found = texts(given, path)
        else:
            each = [FLOAT32, INT8] if given.activations == BOTH else [given.activations or FLOAT32]
            found = speed(given, path, [*map(our_side, each), *peers])
    except FusionXError as error:
        raise SystemExit(str(error)) from error
    result = {
        "model": path.name,
        "device": describe_device(),
        "threads": given.threads,
        "versions": build_versions(),
        "sides": {OURS: fx.__version__, **{each.name: each.facts for each in peers}},
        "command": " ".join(sys.argv),
        **found,
    }
    if given.json:
        write_json(given.json, result)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
