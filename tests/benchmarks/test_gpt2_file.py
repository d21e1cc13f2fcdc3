"""GPT-2 of `transformers` as a GGUF file has the logits it had."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.scripts import script
from tests.tiny_gpt2 import gpt2_logits
from tests.tiny_llama import Tiny
from tvm_fusionx.apps.tokenizer import tokenizer_of
from tvm_fusionx.gguf.decoder_shape import decoder_shape
from tvm_fusionx.gguf.read import read_gguf

gpt2_file = script("gpt2_file")

TEXT = [3, 17, 5, 60, 8, 255]


@pytest.mark.slow
def test_a_file_holds_the_model(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    pytest.importorskip("tokenizers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=300, n_positions=32, n_embd=64, n_layer=2, n_head=4, attn_implementation="eager"
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    gpt2_file.write_gpt2(tmp_path / "tiny.gguf", model, "F16")
    file = read_gguf(tmp_path / "tiny.gguf")
    shape = decoder_shape(file)
    assert (shape.layers, shape.inner, shape.vocabulary, shape.context) == (2, 256, 300, 32)
    held = {
        name: np.asarray(each.data, "float32").reshape([int(n) for n in reversed(each.shape)])
        for name, each in file.tensors.items()
    }
    tiny = Tiny(layers=2, inner=256, groups=4, vocabulary=300, context=32)
    with torch.no_grad():
        expected = model(torch.tensor([TEXT])).logits[0].numpy()
    found = gpt2_logits(held, TEXT, tiny)
    # Matrices are stored as halves.
    assert np.abs(found - expected).max() <= 2e-3 * np.abs(expected).max()
    tokenizer = tokenizer_of(file)
    assert tokenizer.decode(tokenizer.encode("Grüße, 世界")) == "Grüße, 世界"
