"""Models that the zoo exports by name, and that are no part of what is measured as the zoo.

They are there to try; tables, hashes of schedules and numbers of kernels are of
:data:`tvm_fusionx.zoo.recipes.RECIPES` alone, so a row here costs no other test a build.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from tvm_fusionx.zoo import pictures, scans, sounds, transformer_models
from tvm_fusionx.zoo.recipe import (
    INPUT_SEED,
    RELU_GAIN,
    WEIGHT_SEED,
    Inputs,
    Recipe,
    network,
    transformer,
)
from tvm_fusionx.zoo.recipes import BERT_VOCABULARY, C3D_SIZE, CLIP_FRAMES

TRANSLATION_SIZE = (256, 256)
LOW_RESOLUTION = (120, 160)
LONG_TOKENS = 256
LONG_BATCH = 8
DETECTION_SIZE = (512, 512)
SPEECH = (80, 1000)
BIRDS_EYE = (36, 800, 700)
PILLARS, POINTS, POINT_FEATURES = 12_000, 100, 9
PILLAR_GRID = 496 * 432


def _clip() -> Inputs:
    return {"clip": pictures.moving_scene(CLIP_FRAMES, *C3D_SIZE)}


def _picture(height: int, width: int) -> Inputs:
    return {"image": pictures.scene_for_classification(height, width)}


def _long_sentences() -> Inputs:
    """Return sentences of different lengths, padded at the end, and the mask that says so."""
    generator = np.random.default_rng(INPUT_SEED)
    shape = (LONG_BATCH, LONG_TOKENS)
    ids = generator.integers(1, BERT_VOCABULARY, shape, np.int64)
    lengths = generator.integers(LONG_TOKENS // 2, LONG_TOKENS + 1, LONG_BATCH)
    mask = (np.arange(LONG_TOKENS)[None] < lengths[:, None]).astype(np.int64)
    return {"input_ids": ids * mask, "attention_mask": mask}


def _speech() -> Inputs:
    return {"spectrogram": sounds.voice_spectrogram(*SPEECH)}


def _cells() -> Inputs:
    return {"cells": scans.occupied_cells(*BIRDS_EYE)}


def _pillars() -> Inputs:
    points, places = scans.pillars(PILLARS, POINTS, POINT_FEATURES, PILLAR_GRID)
    return {"points": points, "places": places}


FURTHER_RECIPES: Mapping[str, Recipe] = {
    "r2plus1d-18": network(
        "separated_video.r2plus1d_18", "R(2+1)D-18 (Tran et al. 2018), 16 frames of 112x112", _clip
    ),
    "cyclegan": network(
        "translation.cyclegan_generator",
        "CycleGAN's generator of 9 blocks (Zhu et al. 2017), 256x256",
        partial(_picture, *TRANSLATION_SIZE),
        outputs=("picture",),
        gain=RELU_GAIN,
    ),
    "fast-style-transfer": network(
        "translation.fast_style_transfer",
        "fast style transfer (Johnson et al. 2016), 256x256",
        partial(_picture, *TRANSLATION_SIZE),
        outputs=("picture",),
        gain=RELU_GAIN,
    ),
    "wdsr-b": network(
        "translation.WdsrB",
        "WDSR-b of 16 blocks (Yu et al. 2018), 120x160 to four times that",
        partial(_picture, *LOW_RESOLUTION),
        outputs=("picture",),
    ),
    "efficientdet-d0": network(
        "efficientdet.EfficientDetD0",
        "EfficientDet-D0 (Tan et al. 2020), 512x512, up to scores and boxes of all anchors",
        partial(_picture, *DETECTION_SIZE),
        outputs=("scores", "boxes"),
    ),
    "conformer-s": network(
        "conformer.ConformerEncoder",
        "Conformer (S)'s encoder (Gulati et al. 2020), 1000 frames of 80 bands",
        _speech,
        outputs=("features",),
    ),
    "pixor": network(
        "birds_eye.Pixor",
        "PIXOR (Yang et al. 2018), 800x700 cells of 36 heights",
        _cells,
        outputs=("scores", "boxes"),
    ),
    "pointpillars": network(
        "birds_eye.PointPillars",
        "PointPillars for cars (Lang et al. 2019), 12000 pillars of 100 points, on 496x432 cells",
        _pillars,
        outputs=("scores", "boxes", "directions"),
    ),
    "bert-base-long": transformer(
        partial(transformer_models.make_bert_base, WEIGHT_SEED),
        "BERT-base (Devlin et al. 2019), a batch of 8 with 256 tokens each",
        "last_hidden_state",
        _long_sentences,
    ),
}
