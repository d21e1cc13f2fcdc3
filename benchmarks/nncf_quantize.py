"""Quantize an ONNX model by NNCF, with its defaults for post-training quantization.

    python benchmarks/nncf_quantize.py MODEL.onnx SAMPLES.npz OUT.onnx

Run by an environment of its own that has ``nncf``; nothing of ours is imported. SAMPLES has arrays
named ``0/x``, ``1/x``, ..., the inputs of each sample.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np


def samples_of(path: str) -> list[dict[str, np.ndarray]]:
    """Return the inputs of each sample, in order."""
    found: dict[int, dict[str, np.ndarray]] = {}
    with np.load(path) as stored:
        for key in stored.files:
            number, _, name = key.partition("/")
            found.setdefault(int(number), {})[name] = stored[key]
    return [found[number] for number in sorted(found)]


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line asks for."""
    import nncf
    import onnx

    model, samples, out = sys.argv[1:] if words is None else words
    read = samples_of(samples)
    loaded = onnx.load(model)
    is_transformer = any(
        node.op_type == "LayerNormalization" or node.op_type == "Erf" for node in loaded.graph.node
    )
    kind = nncf.ModelType.TRANSFORMER if is_transformer else None
    made = nncf.quantize(loaded, nncf.Dataset(read), subset_size=len(read), model_type=kind)
    onnx.save(made, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
