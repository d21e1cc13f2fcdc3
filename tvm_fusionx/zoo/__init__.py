"""Real models to compile, measure and test with, made or found on this machine without a network.

>>> from tvm_fusionx import zoo
>>> exported = zoo.export("ppocr-det", "det.onnx")
>>> inputs = zoo.sample_inputs(exported)

Text models are exported at batch 1 and 128 tokens, vision models at 224x224, PP-OCRv4 as published.
"""

from __future__ import annotations

from tvm_fusionx.zoo.catalog import ExportedModel, export, names, random_inputs, sample_inputs
from tvm_fusionx.zoo.pictures import draw_text
from tvm_fusionx.zoo.sentences import cosine_similarity, mean_pooled, sentence_inputs

__all__ = [
    "ExportedModel",
    "cosine_similarity",
    "draw_text",
    "export",
    "mean_pooled",
    "names",
    "random_inputs",
    "sample_inputs",
    "sentence_inputs",
]
