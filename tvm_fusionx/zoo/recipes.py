"""The models of the zoo: one row a model, the quickest to obtain first."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tvm_fusionx.zoo import pictures, sentences, transformer_models
from tvm_fusionx.zoo.recipe import (
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
YOLO_V4_SIZE = (416, 416)
# A tile that the network takes without a border (it was published with 572, 7 times the work).
UNET_SIZE = (284, 284)
CLIP_FRAMES = 16
C3D_SIZE = (112, 112)
S3D_SIZE = (224, 224)

# Tokens of the random sentence; the rest of the sequence is padding, so that the mask matters.
SENTENCE_TOKENS = 96
BERT_VOCABULARY = 30522
ALBERT_VOCABULARY = 30000
GPT2_VOCABULARY = 50257


def _minilm_inputs() -> Inputs:
    return dict(sentences.sentence_inputs(sentences.SAMPLE_SENTENCE))


_picture = partial(pictures.scene_for_classification, 224, 224)
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
        "mobile.mobilenet_v1", "MobileNetV1 (Howard et al. 2017), 224x224", _picture
    ),
    "mobilenet-v2": network(
        "mobile.mobilenet_v2", "MobileNetV2 (Sandler et al. 2018), 224x224", _picture
    ),
    "mobilenet-v3": network(
        "mobile.mobilenet_v3_large", "MobileNetV3-Large (Howard et al. 2019), 224x224", _picture
    ),
    "efficientnet-b0": network(
        "efficient.efficientnet_b0", "EfficientNet-B0 (Tan and Le 2019), 224x224", _picture
    ),
    "resnet18": network("residual.resnet18", "ResNet-18 (He et al. 2016), 224x224", _picture),
    "resnet50": network("residual.resnet50", "ResNet-50 (He et al. 2016), 224x224", _picture),
    "vgg16": network(
        "vgg.vgg16", "VGG-16 (Simonyan and Zisserman 2015), 224x224", _picture, gain=RELU_GAIN
    ),
    "mobilenet-ssd": network(
        "ssd.MobileNetSSD",
        "MobileNetV1-SSD (Howard et al. 2017), 300x300, cut before box decoding and NMS",
        partial(pictures.scene_for_classification, *SSD_SIZE),
        outputs=("boxes", "scores"),
    ),
    "unet": network(
        "unet.UNet",
        "U-Net (Ronneberger et al. 2015), tiles of 284x284",
        partial(pictures.grey_scene, *UNET_SIZE),
        gain=RELU_GAIN,
    ),
    "yolo-v4": network(
        "yolo_v4.YoloV4",
        "YOLO-V4 (Bochkovskiy et al. 2020), 416x416, cut before box decoding and NMS",
        partial(pictures.scene_for_classification, *YOLO_V4_SIZE),
        outputs=("small", "middle", "large"),
    ),
    "c3d": network(
        "video.c3d",
        "C3D (Tran et al. 2015), 16 frames of 112x112",
        partial(pictures.moving_scene, CLIP_FRAMES, *C3D_SIZE),
        gain=RELU_GAIN,
    ),
    "s3d": network(
        "video.S3D",
        "S3D (Xie et al. 2018), 16 frames of 224x224",
        partial(pictures.moving_scene, CLIP_FRAMES, *S3D_SIZE),
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
