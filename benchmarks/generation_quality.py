"""What a model's text is worth: a chapter's perplexity, and texts beside `transformers`'."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from austen import chapter
from generation_sides import Side, our_side
from transformers_reader import TransformersReader

from tvm_fusionx.apps.programs import TextPrograms
from tvm_fusionx.expressions.block_weights import BLOCK, MOST_LEVEL

BOOK, CHAPTER = "prideprejudice", 1

PROMPTS = (
    "Once upon a time",
    "The capital of France is",
    "Water boils at a temperature of",
    "In the beginning there was",
    "The three most important inventions of the last century are",
    "My grandmother used to say that",
    "A recipe for bread needs",
    "The difference between a plant and an animal is",
    "When the ship reached the harbour,",
    "def add(a, b):",
)

FLOAT32, INT8 = "float32", "int8"


def perplexities(given: argparse.Namespace, path: Path, peers: list[Side]) -> dict[str, Any]:
    """Return the perplexity of a chapter, by each side."""
    programs = TextPrograms(path)
    tokens = programs.tokenizer().encode(chapter(BOOK, CHAPTER, given.text_folder))
    tokens = tokens[: given.score_tokens]
    places = programs.bucket_for(len(tokens))
    chosen = [given.activations] if given.activations in (FLOAT32, INT8) else [FLOAT32, INT8]
    sides = [(f"{side.name} {each}", side, each) for each in chosen for side in [our_side()]]
    sides += [(peer.name, peer, "") for peer in peers]
    found = {}
    for name, side, activations in sides:
        side.load(path, given.threads, places, activations, given.chunks)
        found[name] = _perplexity(name, side.ask(ask="score", tokens=tokens)["log_chances"])
        side.end()
    reader = TransformersReader(path, programs.tokenizer(), given.threads)
    found["transformers"] = _perplexity("transformers", reader.score(tokens))
    reader.round_data(BLOCK, MOST_LEVEL)
    found["transformers int8"] = _perplexity("transformers int8", reader.score(tokens))
    return {"book": BOOK, "chapter": CHAPTER, "tokens": len(tokens), "perplexity": found}


def _perplexity(name: str, chances: list[float]) -> float:
    found = math.exp(-sum(chances) / len(chances))
    print(f"{name:17} perplexity {found:.4f} of {len(chances)} tokens", flush=True)
    return found


def texts(given: argparse.Namespace, path: Path) -> dict[str, Any]:
    """Return how many greedy tokens are those of `transformers`, for each prompt."""
    tokenizer = TextPrograms(path).tokenizer()
    prompts = PROMPTS[: given.text_prompts]
    longest = max(len(tokenizer.encode(prompt)) for prompt in prompts) + given.new_tokens
    side = our_side()
    side.load(path, given.threads, longest, given.activations or FLOAT32, given.chunks)
    reader = TransformersReader(path, tokenizer, given.threads)
    rows = []
    for prompt in prompts:
        tokens = tokenizer.encode(prompt)
        ours = side.ask(ask="time", tokens=tokens, count=given.new_tokens)["tokens"]
        reader.restart()
        theirs = [int(reader.read(tokens).argmax())]
        while len(theirs) < given.new_tokens:
            theirs.append(int(reader.read(theirs[-1:]).argmax()))
        same = next(
            (at for at, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]),
            len(ours),
        )
        print(f"{same:3} of {len(ours)} tokens the same: {prompt!r}", flush=True)
        rows.append(
            {
                "prompt": prompt,
                "same": same,
                "tokens": len(ours),
                "text": tokenizer.decode(ours),
            }
        )
    side.end()
    return {"activations": given.activations or FLOAT32, "texts": rows}
