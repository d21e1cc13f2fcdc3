"""The models of the zoo: one row a model, the quickest to obtain first."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from tvm_fusionx.zoo import pictures, sentences, sounds, transformer_models
from tvm_fusionx.zoo.recipe import (
    INPUT_SEED,
    RELU_GAIN,
    WEIGHT_SEED,
    Inputs,
    Recipe,
    network,
    packaged_ocr,
    random_sentence,
    transformer,
)

# The sizes PP-OCR was published with; detection takes any multiple of 32.
DETECTION_SIZE = (320, 320)
RECOGNITION_SIZE = (48, 320)
CLASSIFICATION_SIZE = (48, 192)
SSD_SIZE = (300, 300)
YOLO_V8_SIZE = (640, 640)
YOLO_V4_SIZE = (416, 416)
# A tile that the network takes without a border (it was published with 572, 7 times the work).
UNET_SIZE = (284, 284)
CLIP_FRAMES = 16
C3D_SIZE = (112, 112)
S3D_SIZE = (224, 224)

# Smaller than the 800 of the papers, and a multiple of the 32 that the pyramid halves.
DETECTOR_SIZE = 320
# 100 in all, as many as Mask R-CNN keeps; the usual side of a box on each map of a picture of 320.
REGIONS_A_MAP = 25
REGION_SIDES = (32, 64, 128, 240)
WHISPER_BANDS, WHISPER_FRAMES = 80, 3000
LLAMA_FEATURES = 2048

# Tokens of the random sentence; the rest of the sequence is padding, so that the mask matters.
SENTENCE_TOKENS = 96
BERT_VOCABULARY = 30522
ALBERT_VOCABULARY = 30000
GPT2_VOCABULARY = 50257


def _minilm_inputs() -> Inputs:
    return dict(sentences.sentence_inputs(sentences.SAMPLE_SENTENCE))


def _picture(height: int, width: int) -> Inputs:
    return {"image": pictures.scene_for_classification(height, width)}


def _tile(height: int, width: int) -> Inputs:
    return {"image": pictures.grey_scene(height, width)}


def _clip(frames: int, height: int, width: int) -> Inputs:
    return {"clip": pictures.moving_scene(frames, height, width)}


def _picture_and_regions(size: int, regions: int) -> Inputs:
    """Return a square picture, and boxes of the size that each map of the pyramid looks at."""
    generator = np.random.default_rng(INPUT_SEED)
    sides = np.array(REGION_SIDES)[:, None, None] * generator.uniform(0.7, 1.4, (4, regions, 2))
    sides = np.minimum(sides, size)
    first = generator.uniform(0, 1, sides.shape) * (size - sides)
    boxes = np.concatenate([first, first + sides], axis=-1).astype(np.float32)
    return {**_picture(size, size), "regions": boxes}


def _hidden_states(tokens: int, features: int) -> Inputs:
    states = np.random.default_rng(INPUT_SEED).standard_normal((1, tokens, features))
    return {"hidden": states.astype(np.float32)}


def _sound(bands: int, frames: int) -> Inputs:
    return {"input_features": sounds.voice_spectrogram(bands, frames)}


def _pixel_values(height: int, width: int) -> Inputs:
    return {"pixel_values": pictures.scene_for_classification(height, width)}


_imagenet = partial(_picture, 224, 224)
_bert_sentence = partial(random_sentence, BERT_VOCABULARY, SENTENCE_TOKENS)

RECIPES: Mapping[str, Recipe] = {
    "ppocr-det": packaged_ocr(
        "PP-OCRv4 text detection",
        "ch_PP-OCRv4_det_infer.onnx",
        DETECTION_SIZE,
        pictures.page_for_detection,
    ),
    "ppocr-rec": packaged_ocr(
        "PP-OCRv4 text recognition",
        "ch_PP-OCRv4_rec_infer.onnx",
        RECOGNITION_SIZE,
        pictures.line_for_recognition,
    ),
    "ppocr-cls": packaged_ocr(
        "PP-OCRv2 text direction",
        "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        CLASSIFICATION_SIZE,
        pictures.line_for_recognition,
    ),
    "minilm": transformer(
        transformer_models.make_minilm,
        "all-MiniLM-L6-v2, trained, 128 tokens",
        "last_hidden_state",
        _minilm_inputs,
        packages=(sentences.MINILM_DISTRIBUTION, "safetensors", "tokenizers"),
    ),
    "mobilenet-v1": network(
        "mobile.mobilenet_v1", "MobileNetV1 (Howard et al. 2017), 224x224", _imagenet
    ),
    "mobilenet-v2": network(
        "mobile.mobilenet_v2", "MobileNetV2 (Sandler et al. 2018), 224x224", _imagenet
    ),
    "mobilenet-v3": network(
        "mobile.mobilenet_v3_large", "MobileNetV3-Large (Howard et al. 2019), 224x224", _imagenet
    ),
    "efficientnet-b0": network(
        "efficient.efficientnet_b0", "EfficientNet-B0 (Tan and Le 2019), 224x224", _imagenet
    ),
    "resnet18": network("residual.resnet18", "ResNet-18 (He et al. 2016), 224x224", _imagenet),
    "resnet50": network("residual.resnet50", "ResNet-50 (He et al. 2016), 224x224", _imagenet),
    "vgg16": network(
        "vgg.vgg16", "VGG-16 (Simonyan and Zisserman 2015), 224x224", _imagenet, gain=RELU_GAIN
    ),
    "mobilenet-ssd": network(
        "ssd.MobileNetSSD",
        "MobileNetV1-SSD (Howard et al. 2017), 300x300, cut before box decoding and NMS",
        partial(_picture, *SSD_SIZE),
        outputs=("boxes", "scores"),
    ),
    "unet": network(
        "unet.UNet",
        "U-Net (Ronneberger et al. 2015), tiles of 284x284",
        partial(_tile, *UNET_SIZE),
        gain=RELU_GAIN,
    ),
    "yolo-v4": network(
        "yolo_v4.YoloV4",
        "YOLO-V4 (Bochkovskiy et al. 2020), 416x416, cut before box decoding and NMS",
        partial(_picture, *YOLO_V4_SIZE),
        outputs=("small", "middle", "large"),
    ),
    "c3d": network(
        "video.c3d",
        "C3D (Tran et al. 2015), 16 frames of 112x112",
        partial(_clip, CLIP_FRAMES, *C3D_SIZE),
        gain=RELU_GAIN,
    ),
    "s3d": network(
        "video.S3D",
        "S3D (Xie et al. 2018), 16 frames of 224x224",
        partial(_clip, CLIP_FRAMES, *S3D_SIZE),
    ),
    "yolo-v8n": network(
        "yolo_v8.YoloV8n",
        "YOLOv8-n (Jocher et al. 2023), 640x640, boxes decoded, cut before NMS",
        partial(_picture, *YOLO_V8_SIZE),
        outputs=("predictions",),
    ),
    "faster-rcnn": network(
        "region.FasterRCNN",
        "Faster R-CNN with a ResNet-50 pyramid (Ren et al. 2015, Lin et al. 2017), 320x320, "
        "cut at proposal selection and NMS: 100 regions are an input",
        partial(_picture_and_regions, DETECTOR_SIZE, REGIONS_A_MAP),
        outputs=("proposal_scores", "proposal_offsets", "scores", "boxes"),
    ),
    "mask-rcnn": network(
        "region.MaskRCNN",
        "Mask R-CNN with a ResNet-50 pyramid (He et al. 2017), 320x320, "
        "cut at proposal selection and NMS: 100 regions are an input",
        partial(_picture_and_regions, DETECTOR_SIZE, REGIONS_A_MAP),
        outputs=("proposal_scores", "proposal_offsets", "scores", "boxes", "masks"),
    ),
    "vit-b16": transformer(
        partial(transformer_models.make_vit, WEIGHT_SEED),
        "ViT-B/16 (Dosovitskiy et al. 2021), 224x224",
        "logits",
        partial(_pixel_values, 224, 224),
        packages=("pillow",),
    ),
    "whisper-tiny-encoder": transformer(
        partial(transformer_models.make_whisper_encoder, WEIGHT_SEED),
        "the encoder of Whisper tiny (Radford et al. 2022), 3000 frames, 30 s of sound",
        "last_hidden_state",
        partial(_sound, WHISPER_BANDS, WHISPER_FRAMES),
    ),
    "llama-block": network(
        "llama.LlamaBlock",
        "one decoder block of Llama 3.2 1B (Dubey et al. 2024), 128 tokens of a prompt, no cache",
        partial(_hidden_states, sentences.SEQUENCE_LENGTH, LLAMA_FEATURES),
        outputs=("hidden_out",),
    ),
    "tinybert": transformer(
        partial(transformer_models.make_tinybert, WEIGHT_SEED),
        "TinyBERT of 4 layers (Jiao et al. 2020), 128 tokens",
        "last_hidden_state",
        _bert_sentence,
    ),
    "distilbert": transformer(
        partial(transformer_models.make_distilbert, WEIGHT_SEED),
        "DistilBERT (Sanh et al. 2019), 128 tokens",
        "last_hidden_state",
        _bert_sentence,
    ),
    "albert": transformer(
        partial(transformer_models.make_albert, WEIGHT_SEED),
        "ALBERT-base (Lan et al. 2020), 128 tokens",
        "last_hidden_state",
        partial(random_sentence, ALBERT_VOCABULARY, SENTENCE_TOKENS),
    ),
    "mobilebert": transformer(
        partial(transformer_models.make_mobilebert, WEIGHT_SEED),
        "MobileBERT (Sun et al. 2020), 128 tokens",
        "last_hidden_state",
        _bert_sentence,
    ),
    "bert-base": transformer(
        partial(transformer_models.make_bert_base, WEIGHT_SEED),
        "BERT-base (Devlin et al. 2019), 128 tokens",
        "last_hidden_state",
        _bert_sentence,
    ),
    "gpt2": transformer(
        partial(transformer_models.make_gpt2, WEIGHT_SEED),
        "GPT-2 small (Radford et al. 2019), 128 tokens",
        "logits",
        partial(random_sentence, GPT2_VOCABULARY, sentences.SEQUENCE_LENGTH),
    ),
}
