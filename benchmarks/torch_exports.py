"""Export networks of `transformers` by torch's own exporters, and hold ours to torch.

    python benchmarks/torch_exports.py [NAME ...] [--jobs 2] [--json OUT]

Each network is one of the published kinds, small and with random weights, in evaluation mode. It is
exported by the exporter that traces (`dynamo=False`) and by the one that captures (`dynamo=True`),
for old and new opsets, in float32, float16 and bfloat16, imported, built for this machine and run
once. It is right when its outputs are those of torch in float32, within the tolerance of its type
(in bfloat16, of the weights as that type has them). What torch does not export is named with
torch's message and counts as no fault of either.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tvm_fusionx as fx
from tvm_fusionx.errors import FusionXError
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.report.verify.difference import measure_difference, worst
from tvm_fusionx.zoo.weights import draw_weights

TARGET = "llvm -mcpu=native"
SEED = 7

# The exporter that traces stops at opset 20; the other begins at 18.
OPSETS = {"trace": (17, 20), "dynamo": (18, 21, 23, 25)}
# Relative to the largest output: sums in another order; and what rounding to halves between the
# operators of a few layers moves: forty roundings of halves (2^-11), ten of bfloat16 (2^-8).
TOLERANCES = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 4e-2}

RIGHT, WRONG, REFUSED, NO_EXPORT = "right", "wrong", "refused", "not exported"

TOKENS = 16
VOCABULARY = 99
PIXELS = 64

_TEXT = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2}
_HEADS = {"num_attention_heads": 4, "intermediate_size": 64}
_PICTURE = {"image_size": PIXELS, "patch_size": 16, "hidden_size": 32, "num_hidden_layers": 2}
_GROUPED = {"num_key_value_heads": 2, "max_position_embeddings": 64}
_STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}

# Name: what is given, the class, and the configuration that differs from the published one.
NETWORKS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "bert": ("ids", "Bert", {**_TEXT, **_HEADS}),
    "roberta": ("ids", "Roberta", {**_TEXT, **_HEADS}),
    "electra": ("ids", "Electra", {**_TEXT, **_HEADS, "embedding_size": 16}),
    "albert": ("ids", "Albert", {**_TEXT, **_HEADS, "embedding_size": 16}),
    "distilbert": (
        "ids",
        "DistilBert",
        {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    ),
    "gpt2": ("ids", "GPT2", {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4}),
    "llama": ("ids", "Llama", {**_TEXT, **_HEADS, **_GROUPED}),
    "mistral": ("ids", "Mistral", {**_TEXT, **_HEADS, **_GROUPED}),
    "qwen2": ("ids", "Qwen2", {**_TEXT, **_HEADS, **_GROUPED}),
    "gemma2": ("ids", "Gemma2", {**_TEXT, **_HEADS, **_GROUPED, "head_dim": 8}),
    "t5": (
        "ids",
        "T5Encoder",
        {"vocab_size": VOCABULARY, "d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 8},
    ),
    "vit": ("pixels", "ViT", {**_PICTURE, **_HEADS}),
    "deit": ("pixels", "DeiT", {**_PICTURE, **_HEADS}),
    "dinov2": ("pixels", "Dinov2", {**_PICTURE, "num_attention_heads": 4}),
    "convnext": ("pixels", "ConvNext", _STAGES),
    "resnet": ("pixels", "ResNet", {**_STAGES, "embedding_size": 8}),
    "regnet": ("pixels", "RegNet", {**_STAGES, "embedding_size": 8, "groups_width": 4}),
    "mobilenet-v2": ("pixels", "MobileNetV2", {"depth_multiplier": 0.35}),
    "swin": (
        "pixels",
        "Swin",
        {
            "image_size": PIXELS,
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [2, 2],
            "window_size": 4,
        },
    ),
    "segformer": (
        "pixels",
        "Segformer",
        {
            "hidden_sizes": [8, 16, 16, 32],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 2, 4],
        },
    ),
    "poolformer": ("pixels", "PoolFormer", _STAGES),
    "wav2vec2": ("sound", "Wav2Vec2", {**_HEADS, "hidden_size": 32, "num_hidden_layers": 2}),
}


@dataclass(frozen=True)
class Row:
    """What became of one export."""

    network: str
    exporter: str
    opset: int
    precision: str
    outcome: str
    difference: float | None = None
    message: str = ""


def network(name: str) -> tuple[Any, Any]:
    """Return a network in float32 and what it is given, both the same every time."""
    import torch
    import transformers

    kind, family, changes = NETWORKS[name]
    torch.manual_seed(SEED)
    config_name = "T5Config" if family == "T5Encoder" else f"{family}Config"
    config = getattr(transformers, config_name)(**changes)
    config.use_cache = False
    config._attn_implementation = "eager"
    # As large as trained ones: a deep network's results would vanish in halves, torch's own too.
    model = draw_weights(getattr(transformers, f"{family}Model")(config), SEED)
    if kind == "ids":
        given = torch.randint(0, VOCABULARY, (1, TOKENS))
    elif kind == "pixels":
        given = torch.randn(1, 3, PIXELS, PIXELS)
    else:
        given = torch.randn(1, 4_000)
    return model, given


def first_result(model: Any) -> Any:
    """Return a module that gives the first of a network's results, a tensor."""
    import torch

    class First(torch.nn.Module):  # type: ignore[misc, name-defined]
        """Gives one tensor."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, given: Any) -> Any:
            """Return the first result."""
            return self.model(given, return_dict=False)[0]

    return First().eval()


def rows_of(name: str, precisions: Sequence[str] = tuple(TOLERANCES)) -> list[Row]:
    """Return a row for each exporter, opset and precision."""
    import torch

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    rows = []
    for precision in precisions:
        model, given = network(name)
        dtype = getattr(torch, precision)
        module = first_result(model)
        if precision == "bfloat16":
            # Its eight bits are a part of the weights, and no error of the compiler's.
            module = module.to(dtype).float()
            given = given.to(dtype).float() if given.is_floating_point() else given
        with torch.no_grad():
            expected = module(given).numpy()
        module = module.to(dtype)
        example = given.to(dtype) if given.is_floating_point() else given
        array = given.numpy()
        array = array.astype(precision) if given.is_floating_point() else array
        for exporter, opset in _ways():
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.onnx"
                failure = _export(module, example, path, exporter, opset)
                if failure:
                    rows.append(Row(name, exporter, opset, precision, NO_EXPORT, None, failure))
                    continue
                judged = _judged(path, array, expected, precision)
                rows.append(Row(name, exporter, opset, precision, *judged))
    return rows


def _ways() -> Iterator[tuple[str, int]]:
    for exporter, opsets in OPSETS.items():
        for opset in opsets:
            yield exporter, opset


def _export(module: Any, given: Any, path: Path, exporter: str, opset: int) -> str:
    """Write the file; return why torch did not, or nothing."""
    import torch

    try:
        with torch.no_grad(), _silence():
            torch.onnx.export(
                module,
                (given,),
                str(path),
                input_names=["given"],
                opset_version=opset,
                dynamo=exporter == "dynamo",
            )
    except Exception as error:  # torch's exporters raise what their parts raise
        return f"{type(error).__name__}: {_first_line(error)}"
    return ""


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Drop what is printed, by compiled code too: the exporter that traces prints whole graphs."""
    streams = (sys.stdout, sys.stderr)
    for stream in streams:
        stream.flush()
    kept = [os.dup(stream.fileno()) for stream in streams]
    with open(os.devnull, "wb") as nowhere:
        for stream in streams:
            os.dup2(nowhere.fileno(), stream.fileno())
        try:
            yield
        finally:
            for stream, descriptor in zip(streams, kept, strict=True):
                stream.flush()
                os.dup2(descriptor, stream.fileno())
                os.close(descriptor)


def _judged(
    path: Path, given: np.ndarray, expected: np.ndarray, precision: str
) -> tuple[str, float | None, str]:
    try:
        mod, params = fx.from_onnx(path)
        (found,) = run_once(fx.build(mod, TARGET, params=params), {"given": given})
    except FusionXError as error:
        return REFUSED, None, _first_line(error)
    except Exception as error:  # an error that is not ours is a fault of ours
        return WRONG, None, f"{type(error).__name__}: {_first_line(error)}"
    difference = worst([measure_difference(found.astype("float32"), expected)])
    is_right = difference.is_within(TOLERANCES[precision])
    return RIGHT if is_right else WRONG, difference.max_rel, difference.problem


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200]


def main(words: Sequence[str] | None = None) -> int:
    """Print what is not right, and the counts; return 1 where something is wrong or refused."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NETWORKS)}; all by default")
    parser.add_argument("--precision", choices=TOLERANCES, help="one type; all by default")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args(words)
    unknown = sorted(set(options.names) - set(NETWORKS))
    if unknown:
        parser.error(f"{', '.join(unknown)}: expected some of {', '.join(NETWORKS)}")
    names = options.names or list(NETWORKS)
    precisions = [options.precision] if options.precision else list(TOLERANCES)
    rows: list[Row] = []
    with ProcessPoolExecutor(options.jobs, max_tasks_per_child=1) as pool:
        found_rows = pool.map(rows_of, names, itertools.repeat(precisions))
        for name, found in zip(names, found_rows, strict=True):
            rows += found
            counts = collections.Counter(row.outcome for row in found)
            print(f"{name}: {', '.join(f'{count} {what}' for what, count in counts.items())}")
            for row in found:
                if row.outcome != RIGHT:
                    where = f"{row.exporter}, opset {row.opset}, {row.precision}"
                    why = row.message or f"off by {row.difference:.1e}"
                    print(f"  {where}: {row.outcome}: {why}", flush=True)
    counts = collections.Counter((row.precision, row.outcome) for row in rows)
    for precision in precisions:
        line = ", ".join(
            f"{counts[precision, what]} {what}" for what in (RIGHT, WRONG, REFUSED, NO_EXPORT)
        )
        print(f"{precision}: {line}, of {len(names)} networks")
    if options.json is not None:
        options.json.write_text(
            json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8"
        )
    return int(any(row.outcome in (WRONG, REFUSED) for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
