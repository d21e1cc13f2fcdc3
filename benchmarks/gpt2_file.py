"""Write the zoo's GPT-2 as a GGUF file, which `fusionx generate` and `generation.py` run.

    python benchmarks/gpt2_file.py OUT.gguf [--kind F16|Q4_0|Q4_1|Q8_0]

Its weights are the zoo's: random, so its text says nothing, and takes the time that GPT-2 takes.
Its vocabulary is bytes, then words without a meaning up to GPT-2's 50,257.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tvm_fusionx.apps.tokenizer import byte_letters
from tvm_fusionx.output_file import new_file
from tvm_fusionx.zoo.recipes import WEIGHT_SEED
from tvm_fusionx.zoo.transformer_models import make_gpt2

Array = np.ndarray[Any, Any]

KINDS = ("F16", "Q4_0", "Q4_1", "Q8_0")
CONTROL = 3

# By the name in `transformers`, of parts outside of layers and in them.
PARTS = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
LAYER_PARTS = {
    "ln_1": "attn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}


def tensors(model: Any) -> Iterator[tuple[str, Array]]:
    """Give each weight by its name in a GGUF file, ``[outputs, inputs]``."""
    for name, value in model.transformer.named_parameters():
        part, _, kind = name.rpartition(".")
        if part.startswith("h."):
            _, number, part = part.split(".", 2)
            wanted = f"blk.{number}.{LAYER_PARTS[part]}.{kind}"
        else:
            wanted = f"{PARTS[part]}.{kind}"
        array = value.detach().numpy()
        # `Conv1D` holds its weights the other way round.
        turned = ".c_" in name and kind == "weight"
        yield wanted, np.ascontiguousarray(array.T if turned else array)


def write_gpt2(path: Path, model: Any, kind: str) -> None:
    """Write a GPT-2 of `transformers`; matrices are packed as `kind` says."""
    with new_file(path) as scratch:
        _write(scratch, model.config, dict(tensors(model)), kind)


def _write(path: Path, config: Any, weights: Mapping[str, Array], kind: str) -> None:
    import gguf

    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_block_count(config.n_layer)
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(config.n_inner or 4 * config.n_embd)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    letters = list(byte_letters().values())
    end = config.vocab_size - 1
    # Byte pairs need one merge at least.
    pair = letters[:2]
    words = [*letters, "".join(pair)]
    words += [*(f"<{number}>" for number in range(len(words), end)), "<|endoftext|>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words)
    writer.add_token_types([*[1] * end, CONTROL])
    writer.add_token_merges([" ".join(pair)])
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(False)
    for name, array in weights.items():
        type_ = gguf.GGMLQuantizationType[kind if array.ndim > 1 else "F32"]
        stored = gguf.quants.quantize(array, type_)
        is_float = type_.name in ("F16", "F32")
        writer.add_tensor(name, stored, raw_dtype=None if is_float else type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--kind", choices=KINDS, default="Q8_0")
    given = parser.parse_args()
    write_gpt2(given.path, make_gpt2(WEIGHT_SEED), given.kind)
    print(f"{given.path}: {given.path.stat().st_size >> 20} MiB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
