"""A decoder of GGUF as ONNX with `MatMulNBits`: what numpy computes, in any parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.scripts import script
from tests.tiny_gpt2 import gpt2_logits, write_tiny_gpt2
from tests.tiny_llama import Tiny, logits_of, write_tiny

pytest.importorskip("onnxruntime")
pytest.importorskip("gguf")

ort_decoder = script("ort_decoder")

TINY = Tiny(layers=2)
PLACES = 32
TOKENS = [3, 17, 5, 60, 8, 2, 41]
TOLERANCE = 1e-5


def _reader(folder: Path, kinds: tuple[str, ...], *, rounds_zeros: bool):  # type: ignore[no-untyped-def]
    held = write_tiny(folder / "tiny.gguf", kinds, TINY)
    made = ort_decoder.OrtDecoder(folder / "tiny.gguf", PLACES, rounds_zeros=rounds_zeros)
    made.write(folder / "ort" / "tiny.onnx")
    reader = ort_decoder.OrtReader(folder / "ort" / "tiny.onnx", made.shape, PLACES, 1)
    return made, reader, held


@pytest.mark.parametrize("kinds", [("Q4_1", "Q4_1"), ("Q4_0", "Q8_0"), ("F32", "F16")])
def test_floats_compute_what_the_file_says(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    made, reader, held = _reader(tmp_path, kinds, rounds_zeros=False)
    assert made.moved == 0
    for parts in ([TOKENS], [TOKENS[:3], TOKENS[3:4], TOKENS[4:]], [[token] for token in TOKENS]):
        reader.restart()
        tokens: list[int] = []
        for part in parts:
            tokens += part
            found, expected = reader.read(part), logits_of(held, tokens, TINY)[-1]
            assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()


def test_rounded_zero_points_move_weights_by_half_a_step(tmp_path: Path) -> None:
    made, reader, held = _reader(tmp_path, ("Q4_1", "Q4_1"), rounds_zeros=True)
    assert 0 < made.moved <= 0.5
    found, expected = reader.read(TOKENS), logits_of(held, TOKENS, TINY)[-1]
    # Far from right, and far from another model's: what half a step in 15 does to a tiny one.
    assert np.corrcoef(found, expected)[0, 1] > 0.9


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0", "F16"])
def test_gpt2_too(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "tiny.gguf"
    held = write_tiny_gpt2(path, (kind, "F16"))
    made = ort_decoder.OrtDecoder(path, PLACES, rounds_zeros=False)
    made.write(tmp_path / "ort" / "tiny.onnx")
    reader = ort_decoder.OrtReader(tmp_path / "ort" / "tiny.onnx", made.shape, PLACES, 1)
    reader.read(TOKENS[:4])
    found, expected = reader.read(TOKENS[4:]), gpt2_logits(held, TOKENS)[-1]
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()
