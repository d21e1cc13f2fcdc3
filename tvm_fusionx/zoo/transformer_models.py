"""The transformers, as torch modules: transformers' own classes at their published sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvm_fusionx.zoo.packages import find_packaged_file, import_zoo_package
from tvm_fusionx.zoo.sentences import MINILM_DISTRIBUTION
from tvm_fusionx.zoo.weights import draw_weights

# Eager attention keeps MatMul, Softmax and MatMul visible; the other kinds hide them in one call.
ATTENTION = "eager"
# MobileBERT's NoNorm does not normalise, and 24 layers of six residual branches each follow one
# another: a gain of 1 would grow the activations beyond float32, this one keeps them near 1.
MOBILEBERT_GAIN = 0.3
# ALBERT-base (Lan et al. 2020, table 1); the configuration's own defaults are the xxlarge model's.
ALBERT_FEATURES, ALBERT_HEADS, ALBERT_INTERMEDIATE = 768, 12, 3072
IMAGENET_CLASSES = 1000
# TinyBERT's smaller model (Jiao et al. 2020, section 4.2).
TINYBERT_LAYERS, TINYBERT_FEATURES, TINYBERT_INTERMEDIATE = 4, 312, 1200


def make_minilm() -> Any:
    """Return all-MiniLM-L6-v2 with its trained weights, from the package that carries them."""
    transformers = import_zoo_package("transformers")
    safetensors = import_zoo_package("safetensors.torch")
    weights_path = find_packaged_file(MINILM_DISTRIBUTION, "model.safetensors")
    config = transformers.BertConfig.from_json_file(
        str(Path(weights_path).with_name("config.json"))
    )
    config._attn_implementation = ATTENTION
    model = transformers.BertModel(config, add_pooling_layer=False)
    weights = safetensors.load_file(str(weights_path))
    unused = {name for name in weights if name.startswith("pooler.")}
    # A buffer (0, 1, 2, ...) that older transformers stored among the weights.
    unused.add("embeddings.position_ids")
    kept = {name: value for name, value in weights.items() if name not in unused}
    model.load_state_dict(kept, strict=True)
    return model.eval()


def make_bert_base(seed: int) -> Any:
    """Return BERT-base (12 layers, 768 features, 12 heads) with random weights."""
    transformers = import_zoo_package("transformers")
    config = transformers.BertConfig(attn_implementation=ATTENTION)
    return draw_weights(transformers.BertModel(config, add_pooling_layer=False), seed)


def make_distilbert(seed: int) -> Any:
    """Return DistilBERT (6 layers, 768 features, 12 heads) with random weights."""
    transformers = import_zoo_package("transformers")
    config = transformers.DistilBertConfig(attn_implementation=ATTENTION)
    return draw_weights(transformers.DistilBertModel(config), seed)


def make_albert(seed: int) -> Any:
    """Return ALBERT-base (one layer applied 12 times, 768 features) with random weights."""
    transformers = import_zoo_package("transformers")
    config = transformers.AlbertConfig(
        hidden_size=ALBERT_FEATURES,
        num_attention_heads=ALBERT_HEADS,
        intermediate_size=ALBERT_INTERMEDIATE,
        attn_implementation=ATTENTION,
    )
    return draw_weights(transformers.AlbertModel(config, add_pooling_layer=False), seed)


def make_tinybert(seed: int) -> Any:
    """Return TinyBERT (4 layers, 312 features, 12 heads) with random weights."""
    transformers = import_zoo_package("transformers")
    config = transformers.BertConfig(
        num_hidden_layers=TINYBERT_LAYERS,
        hidden_size=TINYBERT_FEATURES,
        intermediate_size=TINYBERT_INTERMEDIATE,
        attn_implementation=ATTENTION,
    )
    return draw_weights(transformers.BertModel(config, add_pooling_layer=False), seed)


def make_gpt2(seed: int) -> Any:
    """Return GPT-2 small (12 layers, 768 features) with its language-model head, random weights."""
    transformers = import_zoo_package("transformers")
    config = transformers.GPT2Config(attn_implementation=ATTENTION, use_cache=False)
    return draw_weights(transformers.GPT2LMHeadModel(config), seed)


def make_mobilebert(seed: int) -> Any:
    """Return MobileBERT (24 layers of four stacked feed-forwards) with random weights."""
    transformers = import_zoo_package("transformers")
    config = transformers.MobileBertConfig(attn_implementation=ATTENTION)
    model = transformers.MobileBertModel(config, add_pooling_layer=False)
    return draw_weights(model, seed, gain=MOBILEBERT_GAIN)


def make_vit(seed: int) -> Any:
    """Return ViT-B/16 (12 layers, 768 features, patches of 16) with random weights."""
    transformers = import_zoo_package("transformers")
    config = transformers.ViTConfig(num_labels=IMAGENET_CLASSES, attn_implementation=ATTENTION)
    return draw_weights(transformers.ViTForImageClassification(config), seed)


def make_whisper_encoder(seed: int) -> Any:
    """Return Whisper tiny's encoder (4 layers, 384 features) with random weights."""
    whisper = import_zoo_package("transformers.models.whisper.modeling_whisper")
    # The configuration's defaults are the tiny model's.
    config = import_zoo_package("transformers").WhisperConfig(attn_implementation=ATTENTION)
    return draw_weights(whisper.WhisperEncoder(config), seed)
