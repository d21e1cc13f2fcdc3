"""Files that are damaged, missing or of an unknown kind are refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tiny_llama import Tiny, write_tiny
from tvm_fusionx.errors import ModelError
from tvm_fusionx.gguf.block_tensor import BlockTensor
from tvm_fusionx.gguf.read import read_gguf


def test_keys_and_tensors(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    held = write_tiny(path, ("Q4_0", "F16"))
    file = read_gguf(path)
    assert file.get("general.architecture") == "llama"
    assert file.get("llama.block_count") == Tiny().layers
    assert file.get("no.such.key", 7) == 7
    embedding = file.tensor("token_embd.weight", (80, 64))
    assert isinstance(embedding, np.ndarray)
    np.testing.assert_array_equal(embedding, held["token_embd.weight"])
    query = file.tensor("blk.0.attn_q.weight", (64, 64))
    assert isinstance(query, BlockTensor)
    np.testing.assert_array_equal(query.floats(), held["blk.0.attn_q.weight"])


@pytest.mark.parametrize("kept", [0, 3, 40, 3000, -100])
def test_a_truncated_file_is_refused(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ModelError, match=r"expected a whole GGUF file; found .* bytes"):
        read_gguf(path)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    with pytest.raises(ModelError, match="expected a GGUF file; found no such file"):
        read_gguf(tmp_path / "none.gguf")
    path = tmp_path / "tiny.gguf"
    write_tiny(path, ("Q4_1", "Q5_0"))
    file = read_gguf(path)
    with pytest.raises(ModelError, match=r"key 'llama\.none': expected a value"):
        file.get("llama.none")
    with pytest.raises(ModelError, match="tensor 'none': expected a tensor of shape"):
        file.tensor("none", (1,))
    with pytest.raises(ModelError, match=r"expected shape \[64\], .*; found \[80, 64\]"):
        file.tensor("token_embd.weight", (64,))
    with pytest.raises(ModelError, match=r"a quantization of Q4_0, Q4_1.*; found Q5_0"):
        file.tensor("token_embd.weight", (80, 64))
