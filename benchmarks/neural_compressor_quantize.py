"""Quantize an ONNX model by Intel's Neural Compressor, with its defaults for static quantization.

    python benchmarks/neural_compressor_quantize.py MODEL.onnx SAMPLES.npz OUT.onnx

Run by an environment of its own that has ``neural-compressor`` (2.6, the last that quantizes ONNX
models); nothing of ours is imported. SAMPLES has arrays named ``0/x``, ``1/x``, ..., the inputs of
each sample. Writes QDQ.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from nncf_quantize import samples_of


class Loader:
    """Samples as the tool asks for them: inputs, and a label that nobody reads."""

    batch_size = 1

    def __init__(self, path: str) -> None:
        self.samples = samples_of(path)

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        """Iterate over pairs of inputs by name and a label."""
        return iter([(sample, 0) for sample in self.samples])


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line asks for."""
    from neural_compressor import PostTrainingQuantConfig, quantization

    model, samples, out = sys.argv[1:] if words is None else words
    loader = Loader(samples)
    config = PostTrainingQuantConfig(
        approach="static",
        quant_format="QDQ",
        calibration_sampling_size=[len(loader.samples)],
    )
    quantization.fit(model, config, calib_dataloader=loader).save(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
